//! Laws of pivots: one runs on one line at most, and the decision goes through it.

use outlast_lineage::{
    BranchId, Digest, Epoch, ExecutionId, Head, Heads, Lineage, NodeId, Pivot, pivot_conflict,
};

fn line(from: &Lineage, author: u64) -> Lineage {
    let mut line = from.clone();
    line.extend(NodeId(author), Epoch(0));
    line
}

fn pivot(place: &str, lineage: &Lineage) -> Pivot {
    Pivot {
        execution: ExecutionId::from_bytes([1; 16]),
        place: Digest::of(place.as_bytes()),
        branch: BranchId::TRUNK,
        lineage: lineage.clone(),
    }
}

#[test]
fn finds_a_pivot_that_two_lines_may_run() {
    let common = line(&Lineage::default(), 1);
    let (left, right) = (line(&common, 1), line(&common, 2));
    let pay = [pivot("pay", &common), pivot("ship", &right), pivot("pay", &left)];
    assert_eq!(pivot_conflict(&pay), None);
    let twice = [pivot("pay", &left), pivot("ship", &left), pivot("pay", &right)];
    assert_eq!(pivot_conflict(&twice), Some((&twice[0], &twice[2])));
}

#[test]
fn a_pivot_admits_only_what_goes_on_from_its_line() {
    let common = line(&Lineage::default(), 1);
    let (left, right) = (line(&common, 1), line(&common, 2));
    let pay = pivot("pay", &left);
    assert!(pay.admits(BranchId::TRUNK, &left));
    assert!(pay.admits(BranchId::TRUNK, &line(&left, 2)));
    assert!(!pay.admits(BranchId::TRUNK, &common));
    assert!(!pay.admits(BranchId::TRUNK, &right));
    assert!(pay.admits(BranchId(9), &right));
}

#[test]
fn the_pick_goes_through_the_pivot_even_if_another_line_has_come_further() {
    let (ran, ahead) = (line(&Lineage::default(), 1), line(&Lineage::default(), 2));
    let mut heads = Heads::default();
    let head =
        |lineage: &Lineage, progress| Head { lineage: lineage.clone(), progress, origin: None };
    heads.insert(BranchId::TRUNK, head(&ran, 1));
    heads.insert(BranchId::TRUNK, head(&ahead, 7));
    assert_eq!(heads.pick(&[]).line(BranchId::TRUNK), Some(&ahead));
    assert_eq!(heads.pick(&[pivot("pay", &ran)]).line(BranchId::TRUNK), Some(&ran));
}
