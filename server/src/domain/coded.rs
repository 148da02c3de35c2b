//! Enums that are stored as small integers and shown by name. Both are promises: a code or a name
//! is never given to another variant, and a variant that goes leaves its code unused.

/// Declares a fieldless enum with `ALL`, `code`, `from_code`, `name`, `from_name`, `Display` and
/// serde by name.
macro_rules! coded {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $code:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// All of them, for documents and tests.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// As stored in the database.
            pub const fn code(self) -> i16 {
                match self { $(Self::$variant => $code,)* }
            }

            /// From the database.
            pub const fn from_code(code: i16) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)* _ => None }
            }

            /// The stable name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The one of this name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$variant),)* _ => None }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = <String as ::serde::Deserialize>::deserialize(deserializer)?;
                Self::from_name(&name).ok_or_else(|| {
                    ::serde::de::Error::unknown_variant(&name, &[$($text,)*])
                })
            }
        }
    };
}
