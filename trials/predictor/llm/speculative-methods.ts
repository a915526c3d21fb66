/**
 * What drafts for speculative decoding. `ngram`: what followed the same words before, in the prompt
 * or the answer; `draft`: a smaller model of the same tokens; `eagle3`: a layer that was trained
 * for the model (EAGLE-3). Light: help names them.
 */
export const speculativeMethods = ['ngram', 'draft', 'eagle3'] as const
export type SpeculativeMethod = (typeof speculativeMethods)[number]
/** Where nothing else is said: it needs no model. */
export const defaultMethod: SpeculativeMethod = 'ngram'

/**
 * Probability that a draft token is accepted, where the user says nothing. ASSUMPTIONS: no table is
 * behind them, and they depend on what is asked and answered.
 */
export const assumedAcceptance: Readonly<Record<SpeculativeMethod, number>> = {
  ngram: 0.3,
  draft: 0.6,
  eagle3: 0.7,
}
