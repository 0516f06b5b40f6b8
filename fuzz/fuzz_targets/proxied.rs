//! What proxies say of their clients: the PROXY protocol, `X-Forwarded-For` and `Forwarded`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reel_fuzz::proxied(bytes));
