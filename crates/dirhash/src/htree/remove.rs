//! Removing names.

use super::Htree;

impl Htree {
    /// Removes a name; returns whether it was there.
    pub fn remove(&mut self, key: u32, id: u32) -> bool {
        let mut path = self.probe(key);
        loop {
            let (block, leaf) = self.leaf_at(&path);
            if let Some(place) = leaf.find(id) {
                let removed = self.leaf_mut(block).remove(place);
                self.entries -= 1;
                self.live_bytes -= u64::from(removed.size);
                self.events.writes += 1;
                if let Some(&(parent, place)) = path.last() {
                    self.tidy(parent, place);
                }
                return true;
            }
            if !self.next_of_same_hash(&mut path, key) {
                return false;
            }
        }
    }
}
