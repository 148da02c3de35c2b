//! Whose turn it is: round over tenants, and round over each tenant's lanes. It knows nothing of
//! rows; a lane that has none is simply not in here.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use crate::domain::id::EndpointId;

/// Lanes that wait for their turn. The caller sees to it that none is in here twice.
#[derive(Debug, Default)]
pub struct Turns {
    tenants: VecDeque<Arc<str>>,
    lanes: HashMap<Arc<str>, VecDeque<EndpointId>>,
}

impl Turns {
    /// Puts a lane at the end of its tenant's round.
    pub fn push(&mut self, tenant: &Arc<str>, endpoint: EndpointId) {
        let lanes = self.lanes.entry(tenant.clone()).or_default();
        if lanes.is_empty() {
            self.tenants.push_back(tenant.clone());
        }
        lanes.push_back(endpoint);
    }

    /// Takes the lane whose turn it is; its tenant's next comes after all other tenants.
    pub fn pop(&mut self) -> Option<EndpointId> {
        let tenant = self.tenants.pop_front()?;
        let lanes = self.lanes.get_mut(&tenant)?;
        let endpoint = lanes.pop_front();
        if lanes.is_empty() {
            self.lanes.remove(&tenant);
        } else {
            self.tenants.push_back(tenant);
        }
        endpoint
    }

    /// Takes lanes out that are no more.
    pub fn retain(&mut self, keep: impl Fn(EndpointId) -> bool) {
        self.lanes.retain(|_, lanes| {
            lanes.retain(|endpoint| keep(*endpoint));
            !lanes.is_empty()
        });
        let lanes = &self.lanes;
        self.tenants.retain(|tenant| lanes.contains_key(tenant));
    }
}
