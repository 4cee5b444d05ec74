//! Stores that are damaged, given up, shared and closed.

use super::*;

/// Lets something damage an open store, and checks that it is then replaced.
fn check(damage: impl FnOnce(&Store) -> Result<(), Error>, reason: &str) {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let (store, _) = Store::open(&dir).unwrap();
    store.apply(&[], Some(3)).unwrap();
    let reader = store.clone();
    assert!(matches!(damage(&store), Err(Error::Damaged { .. })));
    for result in [reader.verify().map(drop), reader.apply(&[], None), reader.flush()] {
        assert!(matches!(result, Err(Error::Damaged { .. })), "{result:?}");
    }
    assert!(matches!(Store::open(&dir), Err(Error::InUse { .. })));
    drop((store, reader));
    let (store, opened) = Store::open(&dir).unwrap();
    let moved_to = parent.path().join("store.damaged-1");
    assert_eq!(opened, Opened::Replaced { moved_to, reason: reason.to_owned() });
    assert_eq!(store.position(), 0);
    store.apply(&[], Some(4)).unwrap();
}

#[test]
fn a_panic_of_the_database_is_damage() {
    let panics = |_: &sled::Tree, _: &State| -> Result<(), Error> { panic!("a page is gone") };
    check(|store| store.read("look up a run", panics), "a page is gone");
}

#[test]
fn a_store_that_is_given_up_is_replaced() {
    let gives_up = |store: &Store| {
        store.give_up("it is ahead");
        store.runs(1).map(drop)
    };
    check(gives_up, "it is ahead");
}

#[test]
fn a_store_that_is_closed_is_free_for_others_although_somebody_shares_it() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let (store, _) = Store::open(&dir).unwrap();
    let reader = store.clone();
    store.apply(&[], Some(3)).unwrap();
    store.close().unwrap();
    let (again, opened) = Store::open(&dir).unwrap();
    assert_eq!((opened, again.position()), (Opened::Ready, 3));
    let results =
        [reader.verify().map(drop), reader.apply(&[], None), reader.flush(), reader.reopen()];
    for result in results {
        assert!(matches!(result, Err(Error::Closed { .. })), "{result:?}");
    }
    // The one that was closed has nothing left to close.
    drop((store, reader));
    again.apply(&[], Some(4)).unwrap();
    assert!(matches!(Store::open(&dir), Err(Error::InUse { .. })));
}

#[test]
fn all_who_share_a_store_go_on_with_it_when_it_is_opened_again() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let (store, _) = Store::open(&dir).unwrap();
    let reader = store.clone();
    store.apply(&[], Some(3)).unwrap();
    store.flush().unwrap();
    store.reopen().unwrap();
    assert_eq!((reader.position(), store.position()), (3, 3));
    reader.apply(&[], Some(5)).unwrap();
    assert!(reader.verify().is_ok());
    drop((store, reader));
    let (store, opened) = Store::open(&dir).unwrap();
    assert_eq!((opened, store.position()), (Opened::Ready, 5));
}

#[test]
fn a_record_that_cannot_be_read_is_damage() {
    let spoil = |store: &Store| {
        let database = store.shared.database.read().unwrap().clone().unwrap();
        database.insert(b"Rr1", &[1, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        store.run(&RunId::new("r1").unwrap()).map(drop)
    };
    check(spoil, "its checksum does not fit");
}
