//! A leaf: records one after the other that fill the block.

use super::geometry::Geometry;
use super::policy::SplitRule;

/// A name to add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The hash, its lowest bit clear.
    pub key: u32,
    /// By which the caller knows the name; not `u32::MAX`.
    pub id: u32,
    /// What it needs in bytes: [`Geometry::record_size`].
    pub size: u16,
}

/// A record of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafRecord {
    /// The name; `None` for a dead first record.
    pub slot: Option<Slot>,
    /// Bytes up to the next record.
    pub length: u32,
}

/// As a record, but smaller. A size of 0 is a dead record.
#[derive(Clone, Copy, Debug)]
struct Packed {
    key: u32,
    id: u32,
    length: u32,
    size: u16,
}

/// The id of `.` and `..`.
const DOT: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Leaf {
    records: Vec<Packed>,
    /// No record but the last has dead space.
    dense: bool,
}

impl Packed {
    fn slot(&self) -> Slot {
        Slot { key: self.key, id: self.id, size: self.size }
    }

    fn of(slot: Slot) -> Packed {
        Packed { key: slot.key, id: slot.id, size: slot.size, length: slot.size.into() }
    }

    fn slack(&self) -> u32 {
        self.length - u32::from(self.size)
    }
}

impl Leaf {
    /// A directory of one block.
    pub(super) fn linear(geometry: &Geometry) -> Leaf {
        let dot = Packed { key: 0, id: DOT, length: 12, size: 12 };
        let space = geometry.leaf_space();
        Leaf { records: vec![dot, Packed { length: space - 12, ..dot }], dense: true }
    }

    /// A leaf of these, one behind the other.
    pub(super) fn of(slots: impl IntoIterator<Item = Slot>, space: u32) -> Leaf {
        let mut leaf = Leaf { records: slots.into_iter().map(Packed::of).collect(), dense: true };
        leaf.stretch(space);
        leaf
    }

    /// Takes the records behind `..`, the first of which then is at the start of a block of its own.
    pub(super) fn without_dots(mut self, space: u32) -> Leaf {
        self.records.drain(..2);
        self.stretch(space);
        self
    }

    /// Makes the last record reach to the end.
    fn stretch(&mut self, space: u32) {
        let before: u32 = self.records.iter().rev().skip(1).map(|record| record.length).sum();
        match self.records.last_mut() {
            Some(last) => last.length = space - before,
            None => self.records.push(Packed { key: 0, id: DOT, length: space, size: 0 }),
        }
    }

    pub(super) fn records(&self) -> impl Iterator<Item = LeafRecord> {
        self.records.iter().map(|record| LeafRecord {
            slot: (record.size > 0 && record.id != DOT).then(|| record.slot()),
            length: record.length,
        })
    }

    /// The names, in their order in the block.
    pub(super) fn slots(&self) -> impl DoubleEndedIterator<Item = Slot> {
        self.records.iter().filter(|record| record.size > 0 && record.id != DOT).map(Packed::slot)
    }

    /// The bytes that names need.
    pub(super) fn live(&self) -> u32 {
        self.slots().map(|slot| u32::from(slot.size)).sum()
    }

    pub(super) fn find(&self, id: u32) -> Option<usize> {
        self.records.iter().position(|record| record.id == id && record.size > 0)
    }

    /// Puts a name into the first dead space that has room; returns whether there was one.
    pub(super) fn insert(&mut self, slot: Slot) -> bool {
        let need = u32::from(slot.size);
        let place = match self.dense {
            true => self.records.last().filter(|last| last.slack() >= need).map(|_| self.records.len() - 1),
            false => self.records.iter().position(|record| record.slack() >= need),
        };
        let Some(place) = place else { return false };
        let record = &mut self.records[place];
        if record.size == 0 {
            // A dead first record gives all it has.
            *record = Packed { length: record.length, ..Packed::of(slot) };
        } else {
            let length = record.slack();
            record.length = record.size.into();
            self.records.insert(place + 1, Packed { length, ..Packed::of(slot) });
        }
        true
    }

    /// Removes the record at this place; its space is then part of the one before.
    pub(super) fn remove(&mut self, place: usize) -> Slot {
        self.dense = false;
        let removed = self.records[place];
        if place == 0 {
            self.records[0].size = 0;
            self.records[0].id = DOT;
        } else {
            self.records.remove(place);
            self.records[place - 1].length += removed.length;
        }
        removed.slot()
    }

    /// Takes the upper half out. Returns it, with the key that leads to it.
    pub(super) fn split(&mut self, geometry: &Geometry, rule: SplitRule) -> (Leaf, u32) {
        // The kernel makes its map from the end of a buffer backwards.
        let mut map: Vec<Packed> =
            self.records.iter().rev().filter(|record| record.size > 0).copied().collect();
        comb_sort(&mut map);
        let at = match rule {
            SplitRule::Size => split_by_size(&map, geometry),
            SplitRule::Count => map.len() / 2,
        };
        let key = map[at].key;
        let continued = at > 0 && map[at - 1].key == key;
        let space = geometry.leaf_space();
        let upper = Leaf::of(map[at..].iter().map(Packed::slot), space);
        let moved = moved_flags(&map[at..], key, self);
        let mut moved = moved.into_iter();
        let kept: Vec<Slot> = self.slots().filter(|_| !moved.next().expect("a flag for each name")).collect();
        *self = Leaf::of(kept, space);
        (upper, key | u32::from(continued))
    }
}

/// Which of a leaf's names are among those moved.
fn moved_flags(moved: &[Packed], key: u32, leaf: &Leaf) -> Vec<bool> {
    // Of the names with the lowest key that moves, some may stay.
    let lowest: Vec<u32> = moved.iter().take_while(|one| one.key == key).map(|one| one.id).collect();
    leaf.slots().map(|slot| slot.key > key || (slot.key == key && lowest.contains(&slot.id))).collect()
}

/// From the greatest hash down, the names whose greater half lies in the upper half of the block. Dead
/// space counts with the name before it.
fn split_by_size(map: &[Packed], geometry: &Geometry) -> usize {
    let half = geometry.block_size() / 2;
    let mut size = 0;
    for (index, record) in map.iter().enumerate().rev() {
        if size + record.length / 2 > half {
            return index + 1;
        }
        size += record.length;
    }
    map.len() / 2
}

/// The kernel's sort. It is not stable, so that names of one hash come out in an order of its own.
fn comb_sort(map: &mut [Packed]) {
    let mut gap = map.len();
    while gap > 2 {
        gap = gap * 10 / 13;
        if gap == 9 || gap == 10 {
            gap = 11;
        }
        for q in (0..map.len().saturating_sub(gap)).rev() {
            if map[q + gap].key < map[q].key {
                map.swap(q, q + gap);
            }
        }
    }
    loop {
        let mut more = false;
        for q in (0..map.len().saturating_sub(1)).rev() {
            if map[q + 1].key < map[q].key {
                map.swap(q, q + 1);
                more = true;
            }
        }
        if !more {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(key: u32, id: u32) -> Slot {
        Slot { key, id, size: 264 }
    }

    fn geometry() -> Geometry {
        Geometry::new(1024, false, false).unwrap()
    }

    #[test]
    fn dead_space_belongs_to_the_record_before() {
        let mut leaf = Leaf::of([slot(2, 1), slot(4, 2), slot(6, 3)], 1024);
        assert!(!leaf.insert(slot(8, 4)), "232 bytes are left");
        leaf.remove(1);
        let lengths: Vec<u32> = leaf.records().map(|record| record.length).collect();
        assert_eq!(lengths, [528, 496]);
        assert!(leaf.insert(slot(8, 4)));
        let ids: Vec<u32> = leaf.slots().map(|slot| slot.id).collect();
        assert_eq!(ids, [1, 4, 3]);
        leaf.remove(0);
        assert_eq!(leaf.records().next().unwrap(), LeafRecord { slot: None, length: 264 });
        assert_eq!(leaf.find(1), None);
        assert!(leaf.insert(slot(1, 5)), "a dead first record gives all it has");
        assert_eq!(leaf.records().map(|record| record.length).sum::<u32>(), 1024);
    }

    #[test]
    fn equal_hashes_are_told_by_the_lowest_bit() {
        let mut leaf = Leaf::of([slot(8, 1), slot(8, 2), slot(8, 3)], 1024);
        let (upper, key) = leaf.split(&geometry(), SplitRule::Size);
        assert_eq!(key, 9);
        assert_eq!(leaf.slots().count() + upper.slots().count(), 3);
        assert!(leaf.slots().count() > 0 && upper.slots().count() > 0);
    }

    #[test]
    fn a_directory_of_one_block_has_its_dots() {
        let mut leaf = Leaf::linear(&geometry());
        assert!(leaf.insert(slot(2, 7)));
        assert_eq!(leaf.slots().count(), 1);
        let lengths: Vec<u32> = leaf.records().map(|record| record.length).collect();
        assert_eq!(lengths, [12, 12, 1000]);
        let leaf = leaf.without_dots(1024);
        assert_eq!(leaf.records().next().unwrap().length, 1024);
    }
}
