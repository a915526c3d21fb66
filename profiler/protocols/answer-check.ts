/**
 * Checks answers, in order, against the user's expectations and the golden answers of a reference:
 * first answers before a load, and a sample of those given under the load.
 */
import type { HttpTarget } from '../model/target.ts'
import { coversPath, type Expectation, findViolation } from './expectations.ts'
import {
  type Bits,
  type Comparison,
  countAllowedDifferences,
  findDifference,
  type GoldenAnswers,
} from './golden-answers.ts'
import type { AnswerClient, ParsedAnswer } from './protocol.ts'

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
 * Describes a wrong answer.
 * @param what completes the sentence 'answered, but'
 */
export const describeWrongAnswer = (body: number, what: string): string =>
  `request ${body} was answered, but ${what}`

export class AnswerCheck {
  private readonly comparison: Comparison
  /**
   * Descriptions of answers with another label, text or integer than the golden one. Rounding may
   * cause a few, so they are a fault only beyond `countAllowedDifferences`.
   */
  private readonly tolerableDifferences: string[] = []
  private comparedAnswers = 0
  /** Any answer was text of a language model, whose default tolerance is larger. */
  private hasGeneratedText = false
  /** First fault that no tolerance excuses. */
  private firstFault: string | undefined
  private pending: Promise<void> = Promise.resolve()

  /**
   * @param target its `findFault` checks that an answer fits its request; absent: that is not checked
   */
  constructor(
    private readonly spec: AnswerSpec,
    private readonly client: AnswerClient,
    private readonly target?: Pick<HttpTarget, 'bodies' | 'findFault'>,
  ) {
    const { bits, configuration, tolerance, expect } = spec
    const toleranceAt = (leaf: string) =>
      expect.find(({ path, value }) => value === undefined && coversPath(path, leaf))?.tolerance
    this.comparison = {
      bits,
      configuration,
      tolerance,
      toleranceAt,
      isResultFromModelOnly: client.isResultFromModelOnly,
    }
  }

  /** Adds the bytes of an answer to the body with this index. Answers are checked in order. */
  checkBytes(body: number, answer: Uint8Array): void {
    this.pending = this.pending.then(async () => {
      if (this.firstFault !== undefined) return
      try {
        const fault = this.target?.findFault?.(this.target.bodies[body]!, answer)
        if (fault === undefined) this.checkAnswer(body, await this.client.parse(answer))
        else this.firstFault = describeWrongAnswer(body, fault)
      } catch (error) {
        this.firstFault = `request ${body} got an unreadable answer: ${(error as Error).message}`
      }
    })
  }

  /** Adds an answer that was already parsed. */
  checkAnswer(body: number, answer: ParsedAnswer): void {
    const { expect, golden } = this.spec
    const fault = findViolation(answer.document, expect)
    if (fault !== undefined) this.firstFault ??= describeWrongAnswer(body, fault)
    if (golden === undefined) return
    this.comparedAnswers++
    this.hasGeneratedText ||= answer.generated === true
    const difference = findDifference(golden, body, answer, this.comparison)
    // `isBeyondTolerance`: numbers differ beyond the tolerance, which is a fault even once.
    if (difference?.isBeyondTolerance) this.firstFault ??= this.describe(difference.description)
    else if (difference !== undefined) this.tolerableDifferences.push(difference.description)
  }

  /**
   * Waits for the checks of all answers so far and describes what is wrong, with the expected and
   * the actual value; undefined where nothing is.
   */
  async findFault(): Promise<string | undefined> {
    await this.pending
    const { golden } = this.spec
    if (this.firstFault !== undefined || golden === undefined) return this.firstFault
    const maxDifferences = countAllowedDifferences(
      golden,
      this.comparison,
      this.comparedAnswers,
      this.hasGeneratedText,
    )
    return this.tolerableDifferences.length > maxDifferences
      ? this.describe(this.tolerableDifferences[0]!)
      : undefined
  }

  private describe(description: string): string {
    return `${description}, the answer of ${this.spec.golden!.source} (if both are right, set golden: off or a tolerance)`
  }
}
