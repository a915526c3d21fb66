/**
 * Methods of speculative decoding. `ngram`: repeats what followed the same tokens before; `draft`:
 * a smaller model with the same tokeniser; `eagle3`: a layer trained for the model (EAGLE-3).
 * Loaded by --help, so without imports.
 */
export const speculativeMethods = ['ngram', 'draft', 'eagle3'] as const
export type SpeculativeMethod = (typeof speculativeMethods)[number]
/** Default: it needs no draft model. */
export const defaultMethod: SpeculativeMethod = 'ngram'

/**
 * Default probability that a draft token is accepted. ASSUMPTIONS without data: they depend on
 * prompts and answers.
 */
export const assumedAcceptance: Readonly<Record<SpeculativeMethod, number>> = {
  ngram: 0.3,
  draft: 0.6,
  eagle3: 0.7,
}
