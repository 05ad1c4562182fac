//! Random images, read and mapped at random.

mod common;

use common::ways;
use proptest::prelude::*;
use verisum_image::{ExtentKind, Image};
use verisum_testkit::{Kind, Run, content, paint};

/// Runs of every kind, some of whole file system blocks and some of odd lengths.
fn runs() -> impl Strategy<Value = Vec<Run>> {
    let kind = prop_oneof![Just(Kind::Data), Just(Kind::Zero), Just(Kind::Hole)];
    let length = prop_oneof![(1..40_u64).prop_map(|blocks| blocks * 4096), 1..100_000_u64];
    prop::collection::vec((kind, length).prop_map(|(kind, length)| Run { kind, length }), 1..10)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_range_of_any_image_is_what_was_painted(
        runs in runs(),
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..20),
        shift in 0..4096_usize,
        aligned in any::<bool>(),
        sector_padding in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        paint(&path, &runs).unwrap();
        let mut expected = content(&runs);
        for way in ways() {
            let image = common::open(&path, &{
let mut options = way.clone();
options.sector_padding = sector_padding;
options
});
            common::assert_holds(&image, &content(&runs));
            expected.resize(image.length() as usize, 0);
            for (start, end) in &places {
                let mask = if aligned { !4095 } else { !0 };
                let (start, end) = (start.index(expected.len()) & mask, end.index(expected.len()));
                let range = start.min(end)..start.max(end);
                let bytes = &expected[range.clone()];
                let range = range.start as u64..range.end as u64;
                let shift = if aligned { 0 } else { shift };
                prop_assert!(common::read(&image, range.clone(), shift).unwrap() == bytes);
                // What is called a hole is zeros.
                let mut extents = Vec::new();
                image.extents(range.clone(), &mut extents).unwrap();
                for extent in extents.iter().filter(|extent| extent.kind == ExtentKind::Zero) {
                    let (start, end) = (extent.range.start as usize, extent.range.end as usize);
                    prop_assert!(expected[start..end].iter().all(|&byte| byte == 0));
                }
            }
        }
    }
}
