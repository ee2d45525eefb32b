//! What authenticators and browsers answer about passkeys.
#![no_main]

use auspex_fuzz::passkeys;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    passkeys::create(data);
    // The head of an authenticator's data has 37 bytes, with zeros in it; the signature follows.
    let (authenticator, signature) = data.split_at(data.len().min(37));
    passkeys::sign(authenticator, signature);
    passkeys::read_client_data(data);
});
