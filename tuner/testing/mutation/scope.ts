/** What is mutated, which mutants have names, and which change nothing. */

/** The decisions: sources and folders, each with a score of its own. */
export const decisions = [
  'search',
  'search/samplers',
  'profiler/slo.ts',
  'profiler/statistics',
  'profiler/capacity',
  'trials/prices',
  'reports/recommendation',
  'reports/plan/plan-costs.ts',
  'tuner/loop',
] as const

/** An expression that stands once in a source, and what it is replaced with. */
export interface NamedMutant {
  readonly name: string
  readonly file: string
  readonly original: string
  readonly replacement: string
}

/** Faults that once passed the whole main job: each stays dead. */
export const named: readonly NamedMutant[] = []

export interface Equivalent extends Omit<NamedMutant, 'name'> {
  readonly reason: string
}

/** Mutants that no test can kill, each with the reason. */
export const equivalents: readonly Equivalent[] = []
