/**
 * Answers held against what is expected of them and against golden ones, one after another: before
 * a load, and a few of its own.
 */
import type { Target } from '../model/target.ts'
import type { Answered, AnswerReading } from './protocol.ts'
import { covers, type Expectation, unexpected } from './expectations.ts'
import {
  type Bits,
  type Comparison,
  differenceFrom,
  type GoldenAnswers,
  mostOthers,
} from './golden-answers.ts'

/** Of one configuration. JSON-safe, for a process elsewhere. */
export interface AnswerSpec {
  readonly expect: readonly Expectation[]
  /** Absent: answers are not compared. */
  readonly golden?: GoldenAnswers
  readonly bits: Bits
  readonly configuration: Readonly<Record<string, number | string>>
  /** Of the largest number at a place, in place of the precision's own. */
  readonly tolerance?: number
}

/** What is wrong with an answer, in words. @param what follows 'answered, but' */
export const answeredBut = (body: number, what: string): string =>
  `request ${body} was answered, but ${what}`

export class AnswerCheck {
  private readonly comparison: Comparison
  private readonly others: string[] = []
  private compared = 0
  private generated = false
  private wrong: string | undefined
  private pending: Promise<void> = Promise.resolve()

  /** @param target whose answers they are: absent, nobody looks whether they mean what was asked */
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

  /** An answer's bytes; they are read in their turn. */
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

  /** What is wrong with the answers so far, both sides shown; undefined where nothing is. */
  async fault(): Promise<string | undefined> {
    await this.pending
    const { golden } = this.spec
    if (this.wrong !== undefined || golden === undefined) return this.wrong
    const most = mostOthers(golden, this.comparison, this.compared, this.generated)
    return this.others.length > most ? this.inWords(this.others[0]!) : undefined
  }

  private inWords(shown: string): string {
    return `${shown}, the answer of ${this.spec.golden!.of} (where both are right: golden: off, or a tolerance)`
  }
}
