//! What a caller may do, and who a caller is.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::tenant::TenantId;

coded! {
    /// One thing that a key may do.
    Scope {
        /// Look at everything but secrets.
        Read = 1, "read";
        /// Send events.
        Emit = 2, "emit";
        /// Change the configuration and deliveries, and see secrets.
        Manage = 4, "manage";
    }
}

/// What a key may do. `manage` does not contain the others: a key has what it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scopes(Vec<Scope>);

impl Scopes {
    /// Everything.
    pub fn all() -> Self {
        Self(Scope::ALL.to_vec())
    }

    /// These, each once; `None` when there is none.
    pub fn new(mut scopes: Vec<Scope>) -> Option<Self> {
        scopes.sort();
        scopes.dedup();
        (!scopes.is_empty()).then_some(Self(scopes))
    }

    /// Whether `scope` is among them.
    pub fn contains(&self, scope: Scope) -> bool {
        self.0.contains(&scope)
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Scope> + '_ {
        self.0.iter().copied()
    }

    /// From names separated by blanks, as they are kept; unknown names are left out.
    pub fn from_text(text: &str) -> Self {
        Self(text.split(' ').filter_map(Scope::from_name).collect())
    }
}

/// Names separated by blanks, as they are kept.
impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(Scope::name).collect();
        f.write_str(&names.join(" "))
    }
}

/// Who is asking, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// As the audit names it: an API key's id, or `command line`.
    pub name: String,
    /// `None` is the operator, who sees all tenants.
    pub tenant: Option<TenantId>,
    /// What it may do.
    pub scopes: Scopes,
}

impl Actor {
    /// Whoever has the database itself may do everything.
    pub fn command_line() -> Self {
        Self { name: "command line".to_owned(), tenant: None, scopes: Scopes::all() }
    }

    /// Whoever writes the settings file has the server itself.
    pub fn settings_file() -> Self {
        Self { name: "settings file".to_owned(), ..Self::command_line() }
    }

    /// Whether it sees this tenant at all.
    pub fn sees(&self, tenant: &TenantId) -> bool {
        self.tenant.as_ref().is_none_or(|own| own == tenant)
    }

    /// Whether it speaks for the operator.
    pub fn is_operator(&self) -> bool {
        self.tenant.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_kept_as_text_and_read_back() {
        let scopes = Scopes::new(vec![Scope::Manage, Scope::Read, Scope::Read]).unwrap();
        assert_eq!(scopes.to_string(), "read manage");
        assert_eq!(Scopes::from_text("read manage"), scopes);
        assert_eq!(Scopes::from_text("read fly manage"), scopes);
        assert!(!scopes.contains(Scope::Emit));
        assert_eq!(Scopes::new(vec![]), None);
    }

    #[test]
    fn a_tenant_sees_itself_alone_and_the_operator_sees_all() {
        let (acme, evil) = (TenantId::parse("acme").unwrap(), TenantId::parse("evil").unwrap());
        let bound = Actor { tenant: Some(acme.clone()), ..Actor::command_line() };
        assert!(bound.sees(&acme) && !bound.sees(&evil) && !bound.is_operator());
        assert!(Actor::command_line().sees(&evil));
    }
}
