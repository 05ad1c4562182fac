//! Lists all directories of an image, and says whether a name leads to each.

use std::collections::{HashMap, HashSet};

use super::check::{DirectoryFault, DirectoryReport, check};
use super::image::{Ext4, ROOT_INODE, ReadError};

/// What was found in an image.
#[derive(Debug, Default)]
pub struct VolumeSurvey {
    /// Its directories, without what is in each leaf.
    pub reports: Vec<DirectoryReport>,
    /// What is wrong with the file system, or cannot be read of it; the first thousand.
    pub troubles: Vec<InodeFault>,
    /// How much more of that there is.
    pub more_troubles: u64,
    /// Whether anything is wrong.
    pub is_damaged: bool,
    /// Whether anything could not be looked at.
    pub is_incomplete: bool,
}

/// Something that is in no directory that could be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InodeFault {
    /// In which inode, if it is in one.
    pub inode: Option<u32>,
    /// What, in words.
    pub what: String,
}

const MOST_TROUBLES: usize = 1000;
/// Findings that are kept, of all directories together.
const MOST_FINDINGS: usize = 100_000;

impl VolumeSurvey {
    /// Looks at all directories.
    pub fn all(image: &Ext4) -> VolumeSurvey {
        let mut survey = VolumeSurvey::of_file_system(image);
        let mut tables = HashSet::new();
        let mut kept = 0;
        for group in 0..image.groups {
            let mut found = Vec::new();
            let read = match image.inode_table(group) {
                // Its directories were looked at already.
                Ok(table) if !tables.insert(table) => {
                    Err(ReadError::Damaged(format!("group {group}: its inodes lie where another group's do")))
                }
                Ok(_) => image.directories_in(group, &mut found),
                Err(error) => Err(error),
            };
            if let Err(error) = read {
                survey.unread(None, &error);
            }
            match image.descriptor_finding(group) {
                Ok(finding) => finding.into_iter().for_each(|what| survey.trouble(None, what)),
                // Those of all groups that follow lie behind it.
                Err(_) => break,
            }
            for inode in found {
                survey.directory(image, inode, &mut kept);
            }
        }
        // Names may lead to more, where a descriptor is damaged.
        let mut visited: HashSet<u32> = survey.reports.iter().map(|report| report.inode).collect();
        let mut place = 0;
        while let Some(report) = survey.reports.get(place) {
            let others: Vec<u32> = report.subdirectories.iter().map(|&(child, _)| child).collect();
            for inode in others {
                if visited.insert(inode) {
                    survey.directory(image, inode, &mut kept);
                }
            }
            place += 1;
        }
        survey.connections();
        survey
    }

    /// Looks at one directory.
    pub fn one(image: &Ext4, inode: u32) -> VolumeSurvey {
        let mut survey = VolumeSurvey::of_file_system(image);
        survey.directory(image, inode, &mut 0);
        survey
    }

    fn of_file_system(image: &Ext4) -> VolumeSurvey {
        let mut survey = VolumeSurvey::default();
        for what in image.findings() {
            survey.trouble(None, what.clone());
        }
        if image.missing_bytes() > 0 {
            let what = format!("the image lacks the last {} bytes of its file system", image.missing_bytes());
            survey.trouble(None, what);
        }
        match image.file_type(ROOT_INODE) {
            Ok(Some(2)) => (),
            Ok(_) => survey.trouble(Some(ROOT_INODE), "the root is no directory".to_string()),
            Err(error) => survey.unread(Some(ROOT_INODE), &error),
        }
        survey
    }

    /// `kept` counts the findings of all directories.
    fn directory(&mut self, image: &Ext4, inode: u32, kept: &mut usize) {
        let checked = match image.directory(inode) {
            Ok(None) => return,
            Ok(Some(directory)) => check(image, &directory),
            Err(error) => Err(error),
        };
        match checked {
            Ok(mut report) => {
                *kept += report.findings.len();
                if *kept > MOST_FINDINGS {
                    report.more_findings += report.findings.len() as u64;
                    report.findings = Vec::new();
                }
                self.is_damaged |= !report.findings.is_empty() || report.more_findings > 0;
                self.is_incomplete |= report.encrypted || report.unfolded > 0;
                self.reports.push(DirectoryReport { leaf_uses: Vec::new(), ..report });
            }
            Err(error) => self.unread(Some(inode), &error),
        }
    }

    /// Whether a directory has one name, in the directory that it says it is in, and the root leads to it.
    fn connections(&mut self) {
        let place: HashMap<u32, usize> =
            self.reports.iter().enumerate().map(|(place, report)| (report.inode, place)).collect();
        let mut named_in: HashMap<u32, u32> = HashMap::from([(ROOT_INODE, ROOT_INODE)]);
        let mut wrong = Vec::new();
        for report in &self.reports {
            for &(child, _) in &report.subdirectories {
                if let Some(other) = named_in.insert(child, report.inode) {
                    let above = report.inode;
                    wrong.push((child, format!("names in the directories {other} and {above} lead to it")));
                }
            }
        }
        for report in &self.reports {
            let (Some(says), Some(&is)) = (report.parent, named_in.get(&report.inode)) else { continue };
            if says != is {
                wrong.push((report.inode, format!(".. is inode {says}, where it is named in {is}")));
            }
        }
        for report in self.reports.iter().filter(|report| !report.encrypted && report.findings.is_empty()) {
            let (Some(links), counted) = (report.links, 2 + report.subdirectories.len()) else { continue };
            if usize::from(links) != counted {
                let what =
                    format!("its inode counts {links} names that lead to it, where there are {counted}");
                wrong.push((report.inode, what));
            }
        }
        // Names that could not be read may lead to the others.
        let is_hidden = self.reports.iter().any(|report| report.encrypted) || !self.troubles.is_empty();
        if !is_hidden {
            let mut reached = HashSet::new();
            let unnamed = self.reports.iter().map(|report| report.inode);
            for inode in unnamed.filter(|inode| !named_in.contains_key(inode)) {
                wrong.push((inode, "no name leads to this directory".to_string()));
                self.reach(&place, inode, &mut reached);
            }
            self.reach(&place, ROOT_INODE, &mut reached);
            for report in &self.reports {
                if !reached.contains(&report.inode) {
                    let what = "only directories inside it lead to this directory";
                    wrong.push((report.inode, what.to_string()));
                    self.reach(&place, report.inode, &mut reached);
                }
            }
        }
        for (inode, what) in wrong {
            self.find(place.get(&inode).copied(), inode, what);
        }
    }

    /// Adds all that a directory leads to; `place` says where the report of each is.
    fn reach(&self, place: &HashMap<u32, usize>, from: u32, reached: &mut HashSet<u32>) {
        let mut next = vec![from];
        while let Some(inode) = next.pop() {
            if reached.insert(inode)
                && let Some(&place) = place.get(&inode)
            {
                next.extend(self.reports[place].subdirectories.iter().map(|&(child, _)| child));
            }
        }
    }

    /// Adds to a directory's findings.
    fn find(&mut self, place: Option<usize>, inode: u32, what: String) {
        match place {
            Some(place) => {
                self.is_damaged = true;
                self.reports[place].findings.push(DirectoryFault { block: None, what });
            }
            None => self.trouble(Some(inode), what),
        }
    }

    /// Damage is damage wherever it is; what fails to be read may be sound.
    fn unread(&mut self, inode: Option<u32>, error: &ReadError) {
        match error {
            ReadError::Damaged(_) => self.trouble(inode, error.to_string()),
            _ => {
                self.is_incomplete = true;
                self.keep(inode, error.to_string());
            }
        }
    }

    fn trouble(&mut self, inode: Option<u32>, what: String) {
        self.is_damaged = true;
        self.keep(inode, what);
    }

    fn keep(&mut self, inode: Option<u32>, what: String) {
        match self.troubles.len() < MOST_TROUBLES {
            true => self.troubles.push(InodeFault { inode, what }),
            false => self.more_troubles += 1,
        }
    }
}
