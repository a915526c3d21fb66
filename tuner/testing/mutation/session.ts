/**
 * What the command and its worker tell each other: a session file one way, a log of lines the
 * other.
 */

export interface Session {
  readonly count: number
  /** Appended to by the worker. */
  readonly log: string
  /**
   * Runs every pending mutant that a test reaches in that test. `alone`: one mutant is on from
   * before the first import.
   */
  readonly alone?: number
  readonly pending: readonly number[]
  /** First and last numbers of the mutants that each test file is asked about. */
  readonly near: Readonly<Record<string, readonly (readonly [first: number, last: number])[]>>
  /** Test and mutant that were tried before: 'test id#number'. */
  readonly tried: readonly string[]
  /**
   * Tests that take longer are for a later round; those that take no longer than `shortestS` were
   * asked in one before.
   */
  readonly longestS: number
  readonly shortestS: number
  /** Seconds of tests that were too long for this round or one before it, by name. */
  readonly tooLongS: Readonly<Record<string, number>>
  /** Seconds of tests that a mutant may take. */
  readonly budgetS: number
  readonly spentS: Readonly<Record<number, number>>
}

export type LogLine =
  | { readonly type: 'worker'; readonly pid: number }
  /**
   * What a test reaches each time it runs (`inside`), and what is reached while files are collected
   * and set up, or the first time alone (`outside`): such a mutant has to be on before the import.
   */
  | {
      readonly type: 'reached'
      readonly where: 'inside' | 'outside'
      readonly file: string
      readonly mutants: readonly number[]
      readonly seconds: number
    }
  /** It takes longer than this round's tests may. */
  | { readonly type: 'too long'; readonly test: string; readonly seconds: number }
  | { readonly type: 'begin'; readonly mutant: number; readonly test: string }
  | {
      readonly type: 'end'
      readonly mutant: number
      readonly test: string
      readonly killed: boolean
      readonly seconds: number
    }
  /** What a mutant left behind makes the test fail without it too: it has to be tried alone. */
  | { readonly type: 'poisoned'; readonly mutant: number; readonly test: string }
  | { readonly type: 'failed'; readonly test: string; readonly message: string }

export const sessionVariable = 'MUTATION_SESSION'
