//! Whose turn it is: round over tenants, and round over each tenant's lanes. It knows nothing of
//! rows; a lane that has none is simply not in here.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use crate::domain::id::EndpointId;

/// An endpoint's lane, and the ticket that it stands in line with.
pub type Turn = (EndpointId, u64);

/// Two rounds that go on side by side: of lanes that are known to be quick, and of all others.
#[derive(Debug, Default)]
pub struct Rounds {
    quick: Turns,
    slow: Turns,
    slow_next: bool,
}

impl Rounds {
    /// Puts a lane at the end of its tenant's round. The ticket comes back with it: whoever has
    /// put a lane into the other round since knows by it that this turn is no more.
    pub fn push(&mut self, slow: bool, tenant: &Arc<str>, turn: Turn) {
        if slow { &mut self.slow } else { &mut self.quick }.push(tenant, turn);
    }

    /// Takes the lane whose turn it is: from the two rounds by turns, or, when there is no room
    /// for slow ones, from the one alone.
    pub fn pop(&mut self, room_for_slow: bool) -> Option<Turn> {
        if !room_for_slow {
            return self.quick.pop();
        }
        self.slow_next = !self.slow_next;
        if self.slow_next {
            self.slow.pop().or_else(|| self.quick.pop())
        } else {
            self.quick.pop().or_else(|| self.slow.pop())
        }
    }

    /// Takes lanes out that are no more.
    pub fn retain(&mut self, keep: impl Fn(EndpointId) -> bool) {
        self.quick.retain(&keep);
        self.slow.retain(&keep);
    }
}

/// Lanes that wait for their turn. The caller sees to it that none is in here twice.
#[derive(Debug, Default)]
struct Turns {
    tenants: VecDeque<Arc<str>>,
    lanes: HashMap<Arc<str>, VecDeque<Turn>>,
}

impl Turns {
    fn push(&mut self, tenant: &Arc<str>, turn: Turn) {
        let lanes = self.lanes.entry(tenant.clone()).or_default();
        if lanes.is_empty() {
            self.tenants.push_back(tenant.clone());
        }
        lanes.push_back(turn);
    }

    /// Its tenant's next comes after all other tenants.
    fn pop(&mut self) -> Option<Turn> {
        let tenant = self.tenants.pop_front()?;
        let lanes = self.lanes.get_mut(&tenant)?;
        let turn = lanes.pop_front();
        if lanes.is_empty() {
            self.lanes.remove(&tenant);
        } else {
            self.tenants.push_back(tenant);
        }
        turn
    }

    fn retain(&mut self, keep: impl Fn(EndpointId) -> bool) {
        self.lanes.retain(|_, lanes| {
            lanes.retain(|(endpoint, _)| keep(*endpoint));
            !lanes.is_empty()
        });
        let lanes = &self.lanes;
        self.tenants.retain(|tenant| lanes.contains_key(tenant));
    }
}
