//! What a trial will cost. Histories are uneven: a few long ones may cost more than all others together.

use std::cmp::Reverse;

use model::api::TrialEstimate;
use model::{Question, TenantId};
use store::analysis::signals::Signal;
use store::analysis::trials::TrialObject;

use crate::analysis::trials::list::Trials;
use crate::analysis::trials::runner::{present_question, proposed_question, read_states};
use crate::runtime::Result;

/// Histories that are in memory at the same time.
const READ_TOGETHER: usize = 50;
/// Objects whose tokens are counted: those with the longest histories, and as many of the others, evenly drawn by length.
const LONGEST: usize = 50;
const OTHERS: usize = 50;

/// An object and the length of what is asked about it, in bytes.
type Measured<'a> = (u64, &'a TrialObject);

impl Trials {
    /// The cost of all calls. Every history is read; the tokens of the longest are counted, and of the others some, which say
    /// how many tokens a byte of the rest has.
    pub(super) async fn estimate(
        &self,
        tenant: TenantId,
        signal: &Signal,
        (instructions, criteria): (&str, Option<&str>),
        objects: &[TrialObject],
    ) -> Result<TrialEstimate> {
        let questions = [present_question(signal)?, proposed_question(signal.kind, instructions, criteria)?];
        let objects: Vec<&TrialObject> = objects.iter().collect();
        let asked: usize = questions.iter().map(Question::length).sum();
        let mut measured: Vec<Measured<'_>> = Vec::with_capacity(objects.len());
        for objects in objects.chunks(READ_TOGETHER) {
            let states = read_states(&self.store, tenant, signal, objects).await?;
            let lengths = states.iter().zip(objects);
            measured.extend(
                lengths.filter_map(|(state, object)| Some(((state.as_ref()?.len() + asked) as u64, *object))),
            );
        }
        measured.sort_by_key(|(length, _)| Reverse(*length));
        let (longest, others) = measured.split_at(measured.len().min(LONGEST));
        let drawn: Vec<Measured<'_>> =
            others.iter().step_by(others.len().div_ceil(OTHERS).max(1)).copied().collect();
        let mut tokens = self.count(tenant, signal, &questions, longest).await?;
        let counted: u64 = self.count(tenant, signal, &questions, &drawn).await?.into_iter().sum();
        let bytes: u64 = drawn.iter().map(|(length, _)| length).sum();
        tokens.extend(others.iter().map(|(length, _)| length * counted / bytes.max(1)));
        let price = |tokens: u64| self.prices.billed_micros(self.asker.model(), tokens, 0);
        Ok(TrialEstimate {
            objects: i64::try_from(objects.len()).unwrap_or(i64::MAX),
            estimated_cost_micros: tokens.into_iter().map(price).fold(0, i64::saturating_add),
        })
    }

    /// The tokens that each call will read; nothing for an object that is gone.
    async fn count(
        &self,
        tenant: TenantId,
        signal: &Signal,
        questions: &[Question],
        measured: &[Measured<'_>],
    ) -> Result<Vec<u64>> {
        let objects: Vec<&TrialObject> = measured.iter().map(|(_, object)| *object).collect();
        let mut tokens = Vec::with_capacity(objects.len());
        for state in read_states(&self.store, tenant, signal, &objects).await?.into_iter().flatten() {
            tokens.push(self.asker.count_tokens(tenant, &state, questions).await);
        }
        Ok(tokens)
    }
}
