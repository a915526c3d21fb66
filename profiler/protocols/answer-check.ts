/**
 * Checks answers against expectations and golden answers, one after another: before a load, and a
 * sample of its own.
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
  readonly bits: Bits
  readonly configuration: Readonly<Record<string, number | string>>
  /** Relative to the largest number at a path; replaces the default of the precision. */
  readonly tolerance?: number
}

/**
 * Describes what is wrong with an answer.
 * @param what follows 'answered, but'
 */
export const answeredBut = (body: number, what: string): string =>
  `request ${body} was answered, but ${what}`

export class AnswerCheck {
  private readonly comparison: Comparison
  private readonly others: string[] = []
  private compared = 0
  private generated = false
  private wrong: string | undefined
  private pending: Promise<void> = Promise.resolve()

  /** @param target target of the answers; absent: their meaning is not checked */
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

  /** Adds an answer; answers are checked in order. */
  take(body: number, answer: Uint8Array): void {
    this.pending = this.pending.then(async () => {
      if (this.wrong !== undefined) return
      try {
        const strange = this.target?.meaning?.(this.target.bodies[body]!, answer)
        if (strange === undefined) this.add(body, await this.reading.read(answer))
        else this.wrong = answeredBut(body, strange)
      } catch (error) {
        this.wrong = `request ${body} got what is no answer: ${(error as Error).message}`
      }
    })
  }

  add(body: number, answer: Answered): void {
    const { expect, golden } = this.spec
    const strange = unexpected(answer.document, expect)
    if (strange !== undefined) this.wrong ??= answeredBut(body, strange)
    if (golden === undefined) return
    this.compared++
    this.generated ||= answer.generated === true
    const difference = differenceFrom(golden, body, answer, this.comparison)
    if (difference?.far) this.wrong ??= this.inWords(difference.shown)
    else if (difference !== undefined) this.others.push(difference.shown)
  }

  /**
   * Describes what is wrong with the answers so far, with both sides; undefined where nothing is.
   */
  async fault(): Promise<string | undefined> {
    await this.pending
    const { golden } = this.spec
    if (this.wrong !== undefined || golden === undefined) return this.wrong
    const most = maxDifferentRequests(golden, this.comparison, this.compared, this.generated)
    return this.others.length > most ? this.inWords(this.others[0]!) : undefined
  }

  private inWords(shown: string): string {
    return `${shown}, the answer of ${this.spec.golden!.of} (where both are right: golden: off, or a tolerance)`
  }
}
