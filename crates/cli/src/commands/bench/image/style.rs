//! The lines of the published experiment: an image, and how many times faster it is hashed.

use verisum_bench::images::ImageContent;
use verisum_bench::record::{BenchResults, NOT_REACHED, Series, ranking};
use verisum_bench::stats::SpeedVerdict;
use verisum_bench::summary::processor_time;

use super::OURS;
use crate::ui::names;

/// Lines as they were published: how many times faster than the first program that was found.
pub(super) fn published(results: &BenchResults, contents: &[ImageContent]) -> String {
    let mut text = String::new();
    for (source, before) in [("raw file", ""), ("redirected", "redirected, "), ("pipe", "pipe, ")] {
        for content in contents {
            let group = format!("{}, {source}", content.name);
            text.push_str(&line(results, &group, &format!("{before}{}", content.name)));
        }
    }
    text
}

/// Why there is nothing to compare: what is missing of ours, or the others'.
fn why_not(results: &BenchResults, group: &str) -> String {
    let rows = || results.series.iter().filter(|one| one.group == group && !one.control);
    let Some(ours) = rows().find(|one| one.name == OURS) else {
        return format!("SKIPPED: {NOT_REACHED}");
    };
    ours.verdict().unwrap_or_else(|| {
        let others = rows().filter(|one| !one.name.starts_with(OURS));
        let mut reasons: Vec<&str> = others.filter_map(|one| one.skipped.as_deref()).collect();
        reasons.dedup();
        format!("SKIPPED: nothing to compare with: {}", reasons.join("; "))
    })
}

fn line(results: &BenchResults, group: &str, name: &str) -> String {
    let of = |name: &str| -> Option<&Series> {
        let same = |one: &&Series| one.group == group && one.name == name && !one.wall.is_empty();
        results.series.iter().find(same)
    };
    // sha256sum, or what there is instead of it for another digest.
    let peer = results.series.iter().find(|one| {
        one.group == group && !one.control && !one.name.starts_with(OURS) && !one.wall.is_empty()
    });
    let (Some(ours), Some(peer)) = (of(OURS), peer) else {
        return format!("{name}: {}\n", names::plain(&why_not(results, group)));
    };
    let Some(pair) = ranking(&[peer, ours]).pair(0, 1) else {
        return format!("{name}: SKIPPED: there is no round that both were measured in\n");
    };
    let cpu = |series: &Series| processor_time(series).map_or(0.0, |(user, system)| user + system);
    let less = cpu(peer) / cpu(ours).max(1e-6);
    let verdict = if pair.verdict == SpeedVerdict::NotResolved { ", no significant difference" } else { "" };
    let ratio = pair.ratio;
    let range = match ours.wall.len().min(peer.wall.len()) {
        1 => "1 run".to_string(),
        _ if ratio.median < 1.0 => format!("{:.1} to {:.1}", 1.0 / ratio.high, 1.0 / ratio.low),
        _ => format!("{:.1} to {:.1}", ratio.low, ratio.high),
    };
    // Slower is no fraction of faster.
    let faster = match ratio.median < 1.0 {
        true => format!("{:.1} x slower than {}", 1.0 / ratio.median, peer.name),
        false => format!("{:.1} x faster than {}", ratio.median, peer.name),
    };
    let time = match less < 1.0 {
        true => format!("{:.1} x more processor time", 1.0 / less),
        false => format!("{less:.1} x less processor time"),
    };
    format!("{name}: {faster} ({range}{verdict}), {time}\n")
}
