//! Each target holds for its seeds, which are where fuzzing begins.

use std::collections::BTreeSet;
use std::path::Path;

use auspex_fuzz::TARGETS;
use hmac::{Hmac, KeyInit as _, Mac as _};

#[test]
fn every_target_holds_for_its_seeds() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for (name, check) in TARGETS {
        let files: Vec<_> =
            std::fs::read_dir(seeds.join(name)).expect(name).map(|file| file.unwrap().path()).collect();
        assert!(!files.is_empty(), "{name} has no seeds");
        for file in files {
            check(&std::fs::read(file).unwrap());
        }
    }
    let named: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let folders: BTreeSet<String> = std::fs::read_dir(seeds)
        .unwrap()
        .map(|folder| folder.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(folders, named);
}

/// A check that cannot fail finds nothing: here somebody did sign.
#[test]
#[should_panic(expected = "nobody signed")]
fn a_target_fails_for_what_does_not_hold() {
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(b"whsec_other").unwrap();
    mac.update(b"1614265330.{}");
    let signature = hex::encode(mac.finalize().into_bytes());
    auspex_fuzz::find("signatures").unwrap()(format!("t=1614265330,v1={signature}\0{{}}").as_bytes());
}
