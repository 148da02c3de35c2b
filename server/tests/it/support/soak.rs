//! How long a test takes: seconds in `make test`, as long as it needs in `make soak`.

/// `long` in `make soak`, which sets `SOAK`; else `short`.
pub fn soak<T>(short: T, long: T) -> T {
    if is_soak() { long } else { short }
}

/// Whether this is `make soak`.
pub fn is_soak() -> bool {
    std::env::var_os("SOAK").is_some_and(|text| !text.is_empty())
}
