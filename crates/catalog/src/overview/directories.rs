//! Sums for each directory of a catalogue, and the choice of directories to report.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;

use super::{Amount, OverviewOptions, Result};
use crate::store::{Catalog, Moment};

/// A directory, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryOverview {
    /// Which of the catalogues has it.
    pub catalog: usize,
    /// Its whole path, or address.
    pub path: PathBuf,
    /// Which part of it.
    pub part: DirectoryPart,
    /// What is in that part.
    pub amount: Amount,
    /// When the stalest file of that part was verified; [`Moment::NEVER`] if it never was, none if there is
    /// nothing that could be verified.
    pub oldest: Option<Moment>,
}

/// Which part of a directory something is told of. The parts of all directories that are told of have no file twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryPart {
    /// All files below it.
    All,
    /// The files right in it.
    Own,
    /// All files below so many of its directories, which are told of together.
    Others(usize),
}

/// A directory with its sums.
#[derive(Clone, Debug)]
pub(super) struct Node {
    id: i64,
    /// Negative for the top of a tree.
    parent: i64,
    pub(super) own: Amount,
    pub(super) own_oldest: Option<Moment>,
    whole: Amount,
    oldest: Option<Moment>,
}

/// All directories of a catalogue, by their numbers.
pub(super) struct Directories {
    nodes: Vec<Node>,
    /// Where the last one was found: rows of one directory follow each other.
    last: usize,
}

impl Directories {
    pub(super) fn of(catalog: &Catalog) -> Result<Directories> {
        let mut nodes = Vec::new();
        catalog.each_directory(&mut |id, parent| {
            let (own, whole) = (Amount::default(), Amount::default());
            nodes.push(Node { id, parent, own, own_oldest: None, whole, oldest: None });
        })?;
        Ok(Directories { nodes, last: 0 })
    }

    pub(super) fn get_mut(&mut self, id: i64) -> Option<&mut Node> {
        if self.nodes.get(self.last).is_none_or(|node| node.id != id) {
            self.last = self.find(id)?;
        }
        self.nodes.get_mut(self.last)
    }

    fn find(&self, id: i64) -> Option<usize> {
        self.nodes.binary_search_by_key(&id, |node| node.id).ok()
    }

    /// Makes sums of all below out of those of each. A directory is newer than that which it is in; where a damaged
    /// catalogue says otherwise, its check tells.
    pub(super) fn sum(&mut self) {
        for index in (0..self.nodes.len()).rev() {
            let node = &mut self.nodes[index];
            node.whole.add(node.own.files, node.own.bytes);
            node.oldest = earlier(node.oldest, node.own_oldest);
            let (id, parent, whole, oldest) = (node.id, node.parent, node.whole, node.oldest);
            if let Some(above) = self.find(parent).filter(|_| parent < id) {
                let above = &mut self.nodes[above];
                above.whole.add(whole.files, whole.bytes);
                above.oldest = earlier(above.oldest, oldest);
            }
        }
    }

    /// The directories that all files are in, and those whose own files are the stalest.
    pub(super) fn told(
        &self,
        number: usize,
        catalog: &Catalog,
        options: &OverviewOptions,
    ) -> Result<(Vec<DirectoryOverview>, Vec<DirectoryOverview>)> {
        let paths = Paths::of(catalog)?;
        let tell = |(index, part, amount, oldest): Tile| {
            let path = paths.whole(catalog, self, index)?;
            Ok(DirectoryOverview { catalog: number, path, part, amount, oldest })
        };
        let directories = self.tiles(options.directories).into_iter().map(tell).collect::<Result<_>>()?;
        let mut stalest: Vec<usize> = Vec::new();
        let order = |index: &usize| (self.nodes[*index].own_oldest, Reverse(self.nodes[*index].own.bytes));
        stalest.extend((0..self.nodes.len()).filter(|index| self.nodes[*index].own_oldest.is_some()));
        let most = (options.directories / 2).min(stalest.len());
        if most < stalest.len() {
            stalest.select_nth_unstable_by_key(most, order);
            stalest.truncate(most);
        }
        let own = |index: usize| {
            let node = &self.nodes[index];
            (index, DirectoryPart::Own, node.own, node.own_oldest)
        };
        let stalest = stalest.into_iter().map(own).map(tell).collect::<Result<_>>()?;
        Ok((directories, stalest))
    }

    /// Parts that have each file once: the largest is divided as long as there are not too many.
    fn tiles(&self, most: usize) -> Vec<Tile> {
        let mut by_parent: Vec<u32> = (0..self.nodes.len() as u32).collect();
        let node = |index: &u32| &self.nodes[*index as usize];
        by_parent.sort_unstable_by_key(|index| (node(index).parent, Reverse(node(index).whole.bytes)));
        let tops = by_parent.iter().take_while(|index| node(index).parent < 0).map(|index| *index as usize);
        let mut open: BinaryHeap<(u64, usize)> =
            tops.map(|index| (self.nodes[index].whole.bytes, index)).collect();
        let mut tiles = Vec::new();
        while let Some((_, index)) = open.pop() {
            let above = &self.nodes[index];
            let begin = by_parent.partition_point(|child| node(child).parent < above.id);
            let children = &by_parent[begin..];
            let children = &children[..children.partition_point(|child| node(child).parent == above.id)];
            let room = most.saturating_sub(tiles.len() + open.len());
            if children.is_empty() || room < 4 || above.whole.bytes == 0 {
                tiles.push((index, DirectoryPart::All, above.whole, above.oldest));
                continue;
            }
            // Directories of many others would leave no room for the rest.
            let kept = children.len().min(room - 2);
            let kept = if children.len() <= kept { kept } else { kept.min(most / 4).max(1) };
            open.extend(children[..kept].iter().map(|child| (node(child).whole.bytes, *child as usize)));
            if above.own.files > 0 {
                tiles.push((index, DirectoryPart::Own, above.own, above.own_oldest));
            }
            let others = &children[kept..];
            if !others.is_empty() {
                let (mut amount, mut oldest) = (Amount::default(), None);
                for other in others {
                    amount.add(node(other).whole.files, node(other).whole.bytes);
                    oldest = earlier(oldest, node(other).oldest);
                }
                tiles.push((index, DirectoryPart::Others(others.len()), amount, oldest));
            }
        }
        tiles.retain(|(_, _, amount, _)| amount.files > 0);
        tiles
    }
}

/// The index of a directory, which part of it, what is in that, and when the stalest was verified.
type Tile = (usize, DirectoryPart, Amount, Option<Moment>);

/// The paths of trees by the numbers of their top directories.
struct Paths(Vec<(i64, PathBuf)>);

impl Paths {
    fn of(catalog: &Catalog) -> Result<Paths> {
        Ok(Paths(catalog.roots()?.into_iter().map(|root| (root.directory, root.path)).collect()))
    }

    fn whole(&self, catalog: &Catalog, directories: &Directories, index: usize) -> Result<PathBuf> {
        let node = &directories.nodes[index];
        let below = catalog.path_in_root(node.id)?;
        let mut top = node;
        while let Some(above) = directories.find(top.parent).filter(|_| top.parent < top.id) {
            top = &directories.nodes[above];
        }
        let root = self.0.iter().find(|(directory, _)| *directory == top.id);
        let root = root.map(|(_, path)| path.clone()).unwrap_or_default();
        Ok(if below.as_os_str().is_empty() { root } else { root.join(below) })
    }
}

/// The earlier of two moments that may not be.
fn earlier(one: Option<Moment>, other: Option<Moment>) -> Option<Moment> {
    one.into_iter().chain(other).min()
}
