//! What happens to a session between the choice of what stays of it and the new segment.

use super::*;

/// A bench on which something happens once it is chosen what stays.
struct Meanwhile<F> {
    disk: DiskBench,
    act: Option<F>,
}

impl<F: FnOnce()> Bench for Meanwhile<F> {
    fn create(&mut self) -> io::Result<()> {
        if let Some(act) = self.act.take() {
            act();
        }
        self.disk.create()
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.disk.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.sync()
    }

    fn name(&mut self, name: &str) -> io::Result<()> {
        self.disk.name(name)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_dir(&mut self) -> io::Result<()> {
        self.disk.sync_dir()
    }

    fn discard(&mut self) {
        self.disk.discard();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_forgotten_during_a_rewriting_stays_forgotten() {
    // Whether the session is retired before it is forgotten, and is forgotten meanwhile or after.
    for (retires, forgets_after) in [(false, false), (true, false), (true, true)] {
        let case = format!("retires {retires}, forgets after {forgets_after}");
        let dir = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(dir.path(), options()).unwrap();
        let (a, b, c) = (id(1), id(2), id(3));
        let fill = |length: usize| vec![Bytes::from(vec![b'x'; length]).into()];
        journal.append(&a, 0, fill(1)).await.unwrap();
        for slot in 0..8 {
            journal.append(&b, slot, fill(250)).await.unwrap();
            // So much is held beside the session that its segment is not soon rewritten again.
            journal.append(&c, slot, fill(250)).await.unwrap();
        }
        journal.append_begin(&b, 8, "state".into()).await.unwrap();
        assert!(journal.retire(&b, 8), "{case}");
        let work = move || {
            let handle = tokio::runtime::Handle::current();
            let forget = |journal: &Journal| handle.block_on(journal.forget(&a)).unwrap();
            let act = || {
                if retires {
                    handle.block_on(journal.append_begin(&a, 1, "state".into())).unwrap();
                    assert!(journal.retire(&a, 1), "{case}");
                }
                if !forgets_after {
                    forget(&journal);
                }
            };
            let disk = DiskBench::new(&journal.files.journal);
            let mut bench = Meanwhile { disk, act: Some(act) };
            assert!(rewrite_with(&journal, &mut bench).unwrap().is_some(), "{case}");
            check_counts(&journal, &case);
            if forgets_after {
                forget(&journal);
            }
            // The segment that says so is rewritten too, and has nothing else to say.
            for slot in 9..40 {
                handle.block_on(journal.append(&b, slot, fill(250))).unwrap();
            }
            handle.block_on(journal.append_begin(&b, 40, "state".into())).unwrap();
            assert!(journal.retire(&b, 40), "{case}");
            while journal.rewrite_next().unwrap().is_some() {
                check_counts(&journal, &case);
            }
            drop(journal);
            let (journal, report) = Journal::open(dir.path(), options()).unwrap();
            assert_eq!(report.damage, [], "{case}");
            assert_eq!(journal.sessions(), [b, c], "{case}");
            check_counts(&journal, &case);
        };
        tokio::task::spawn_blocking(work).await.unwrap();
    }
}
