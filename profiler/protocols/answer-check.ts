/**
 * Checks answers, in order, against the user's expectations and the golden answers of a reference:
 * first answers before a load, and a sample of those given under the load.
 */
import type { Target } from '../model/target.ts'
import { covers, type Expectation, unexpected } from './expectations.ts'
import {
  type Bits,
  type Comparison,
  differenceFrom,
  type GoldenAnswers,
  maxDifferentRequests,
} from './golden-answers.ts'
import type { Answered, AnswerReading } from './protocol.ts'

/** Expected answers of one configuration. JSON-safe, for a remote process. */
export interface AnswerSpec {
  readonly expect: readonly Expectation[]
  /** Absent: answers are not compared. */
  readonly golden?: GoldenAnswers
  /** Precision of this configuration's numbers; fewer bits get a larger default tolerance. */
  readonly bits: Bits
  readonly configuration: Readonly<Record<string, number | string>>
  /** Relative to the largest number at a path; replaces the default for `bits`. */
  readonly tolerance?: number
}

/**
 * Message for a wrong answer.
 * @param what completes the sentence 'answered, but'
 */
export const answeredBut = (body: number, what: string): string =>
  `request ${body} was answered, but ${what}`

export class AnswerCheck {
  private readonly comparison: Comparison
  /**
   * Answers with another label, text or integer, described. Rounding may cause a few of them, so
   * they are a fault only beyond `maxDifferentRequests`.
   */
  private readonly tolerable: string[] = []
  private compared = 0
  /** Any answer was text of a language model, whose default tolerance is larger. */
  private generated = false
  /** First fault that no tolerance excuses. */
  private wrong: string | undefined
  private pending: Promise<void> = Promise.resolve()

  /**
   * @param target target of the answers, whose `meaning` checks that an answer fits its request;
   * absent: that is not checked
   */
  constructor(
    private readonly spec: AnswerSpec,
    private readonly reading: AnswerReading,
    private readonly target?: Pick<Extract<Target, { kind: 'http' }>, 'bodies' | 'meaning'>,
  ) {
    const { bits, configuration, tolerance, expect } = spec
    const toleranceAt = (leaf: string) =>
      expect.find(({ path, value }) => value === undefined && covers(path, leaf))?.tolerance
    this.comparison = { bits, configuration, tolerance, toleranceAt, tensors: reading.tensors }
  }

  /** Adds the bytes of an answer to the body with this index. Answers are checked in order. */
  take(body: number, answer: Uint8Array): void {
    this.pending = this.pending.then(async () => {
      if (this.wrong !== undefined) return
      try {
        const fault = this.target?.meaning?.(this.target.bodies[body]!, answer)
        if (fault === undefined) this.add(body, await this.reading.read(answer))
        else this.wrong = answeredBut(body, fault)
      } catch (error) {
        this.wrong = `request ${body} got what is no answer: ${(error as Error).message}`
      }
    })
  }

  /** Adds an answer that was already parsed. */
  add(body: number, answer: Answered): void {
    const { expect, golden } = this.spec
    const fault = unexpected(answer.document, expect)
    if (fault !== undefined) this.wrong ??= answeredBut(body, fault)
    if (golden === undefined) return
    this.compared++
    this.generated ||= answer.generated === true
    const difference = differenceFrom(golden, body, answer, this.comparison)
    // `far`: numbers differ beyond the tolerance, which is a fault even once.
    if (difference?.far) this.wrong ??= this.describe(difference.shown)
    else if (difference !== undefined) this.tolerable.push(difference.shown)
  }

  /**
   * Waits for the checks of all answers so far and describes what is wrong, with the expected and
   * the actual value; undefined where nothing is.
   */
  async fault(): Promise<string | undefined> {
    await this.pending
    const { golden } = this.spec
    if (this.wrong !== undefined || golden === undefined) return this.wrong
    const max = maxDifferentRequests(golden, this.comparison, this.compared, this.generated)
    return this.tolerable.length > max ? this.describe(this.tolerable[0]!) : undefined
  }

  private describe(shown: string): string {
    return `${shown}, the answer of ${this.spec.golden!.of} (where both are right: golden: off, or a tolerance)`
  }
}
