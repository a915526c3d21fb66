/**
 * A launcher whose predictors answer as they should before they are measured, and while: to what
 * was asked, as the user expects, and like the configuration that was first. That one is asked the
 * same several times, so that what it answers otherwise each time is not held against others
 * (profiler/protocols/golden-answers.ts).
 */
import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { answersHeld } from '../../profiler/bounded-reader.ts'
import type { Target } from '../../profiler/model/target.ts'
import { AnswerCheck, type AnswerSpec, answeredBut } from '../../profiler/protocols/answer-check.ts'
import { type Expectation, unexpected } from '../../profiler/protocols/expectations.ts'
import {
  buildGoldenAnswers,
  detectBits,
  type GoldenAnswers,
} from '../../profiler/protocols/golden-answers.ts'
import type { Answered, AnswerReading } from '../../profiler/protocols/protocol.ts'
import type { Configuration } from '../../search/types.ts'
import { mapTexts, withoutSecrets } from '../secrets.ts'
import { InfeasibleError, type Launcher, type Predictor } from '../types.ts'
import type { GoldenStore } from './golden-store.ts'
import type { PredictorTemplate } from './template.ts'
import { variantParameter, withVariant } from './variants.ts'

export interface AnswerRules {
  readonly expect: readonly Expectation[]
  /**
   * Answers of the first configuration, none, or answers of a file, in the order of the payload's
   * requests.
   */
  readonly golden:
    | 'first'
    | 'off'
    | { readonly file: string; readonly documents: readonly unknown[] }
  /**
   * How far numbers may be from golden ones, as a share of the largest; absent: as the precision
   * allows.
   */
  readonly tolerance?: number
}

interface CheckedAnswersOptions {
  readonly rules: AnswerRules
  readonly template: PredictorTemplate
  readonly reading: AnswerReading
  readonly store: GoldenStore
  /** Default: this machine's. Tests bring one whose time passes at once. */
  readonly clock?: { now(): number; sleep(ms: number, signal: AbortSignal): Promise<unknown> }
}

const machineClock: NonNullable<CheckedAnswersOptions['clock']> = {
  now: () => performance.now(),
  sleep: (ms, signal) => sleep(ms, undefined, { signal }),
}

type HttpTarget = Extract<Target, { kind: 'http' }>

const mostBodies = 8
/** Bodies that are looked through for different ones. */
const mostLookedAt = 512
/** Slow servers are asked less. */
const longEnoughMs = 4_000
/** A time in seconds is another one by then. */
const anotherSecondMs = 1_100

export function withCheckedAnswers<L extends Launcher>(
  inner: L,
  options: CheckedAnswersOptions,
): L {
  const reading = withoutEchoes(options.reading)
  return {
    ...inner,
    launch: async (configuration, trialNumber, signal, onWaiting) => {
      const predictor = await inner.launch(configuration, trialNumber, signal, onWaiting)
      if (predictor.target.kind !== 'http') return predictor
      try {
        return await checked(predictor, predictor.target, {
          ...options,
          reading,
          configuration,
          trialNumber,
          signal,
          logPath: predictor.logPath,
        })
      } catch (error) {
        await predictor.stop()
        signal.throwIfAborted()
        throw error
      }
    },
  }
}

/** A server may repeat what it was sent. */
function withoutEchoes(reading: AnswerReading): AnswerReading {
  const cleared = ({ document, result, ...rest }: Answered): Answered => ({
    ...rest,
    document: mapTexts(document, withoutSecrets),
    result: mapTexts(result, withoutSecrets),
  })
  return {
    ...reading,
    read: async (answer) => cleared(await reading.read(answer)),
    of: async (document) => cleared(await reading.of(document)),
  }
}

interface Asking extends CheckedAnswersOptions {
  readonly configuration: Configuration
  readonly trialNumber: number
  readonly signal: AbortSignal
  readonly logPath?: string
}

async function checked(
  predictor: Predictor,
  target: HttpTarget,
  asking: Asking,
): Promise<Predictor> {
  const { rules, template, reading } = asking
  const given = typeof rules.golden === 'object' ? rules.golden.documents.length : undefined
  const bodies =
    given === undefined
      ? differentBodies(target)
      : Array.from({ length: Math.min(given, target.bodies.length) }, (_, i) => i)
  const { configuration: asServed } = withVariant(template, asking.configuration)
  const bits = detectBits(Object.values(asServed))
  const golden = await goldenFor(target, bodies, bits, asking)
  const { expect, tolerance } = rules
  const spec: AnswerSpec = { expect, golden, bits, configuration: asking.configuration, tolerance }
  const before = new AnswerCheck(spec, reading)
  // Those who gave the golden answers just did, and were right.
  const own = golden?.of === nameOf(asking)
  const answers = own ? [] : await askMany(target, bodies, asking)
  for (const [i, answer] of answers.entries())
    if (answer !== undefined) before.add(bodies[i]!, answer)
  const fault = await before.fault()
  if (fault !== undefined) throw new InfeasibleError('answers-differ', fault, predictor.logPath)
  const loaded = new AnswerCheck(spec, reading, target)
  return {
    ...predictor,
    target: { ...target, sample: { bodies, take: (body, answer) => loaded.take(body, answer) } },
    answers: { spec, bodies, fault: () => loaded.fault() },
  }
}

/** Numbers of different bodies, spread over all of them. */
function differentBodies({ bodies }: HttpTarget): number[] {
  const seen = new Set<string>()
  const different: number[] = []
  for (const [i, { body }] of bodies.slice(0, mostLookedAt).entries()) {
    const hash = createHash('sha1').update(body).digest('hex')
    if (seen.has(hash)) continue
    seen.add(hash)
    different.push(i)
  }
  const kept = Math.min(mostBodies, different.length)
  return Array.from(
    { length: kept },
    (_, i) => different[Math.floor((i * different.length) / kept)]!,
  )
}

const nameOf = ({ trialNumber }: Asking): string => `trial ${trialNumber}`

async function goldenFor(
  target: HttpTarget,
  bodies: readonly number[],
  bits: GoldenAnswers['bits'],
  asking: Asking,
): Promise<GoldenAnswers | undefined> {
  const { rules, reading, store, configuration } = asking
  if (rules.golden === 'off') return undefined
  if (rules.golden !== 'first') {
    const { file, documents } = rules.golden
    const answers = await Promise.all(bodies.map((body) => reading.of(documents[body])))
    return buildGoldenAnswers({ of: file, bits: 32, configuration: {} }, bodies, [answers])
  }
  return store.get(keyOf(asking, target, bodies), async () => {
    const rounds = await severalRounds(target, bodies, asking)
    const golden = buildGoldenAnswers({ of: nameOf(asking), bits, configuration }, bodies, rounds)
    return golden.answers.length === 0 ? undefined : golden
  })
}

/**
 * Of configurations that answer the same: the same requests, and nothing that changes what a good
 * answer is. A variant is another model, unless it is this one in another precision.
 */
function keyOf(
  { template, configuration: asGiven }: Asking,
  target: HttpTarget,
  bodies: readonly number[],
): string {
  const { template: served, configuration } = withVariant(template, asGiven)
  const model =
    served.kind === 'builtin'
      ? [served.model, served.env?.MODEL_PATH]
      : [configuration[variantParameter]]
  const { sequenceLength, imageSize } = configuration
  const hash = createHash('sha256')
  for (const body of bodies) hash.update(target.bodies[body]!.body)
  return JSON.stringify([...model, sequenceLength, imageSize, hash.digest('hex')])
}

/**
 * The same requests one by one, then at once, and for answers in which a time may stand a second
 * later; as many of them as there is time for.
 */
async function severalRounds(
  target: HttpTarget,
  bodies: readonly number[],
  asking: Asking,
): Promise<(Answered | undefined)[][]> {
  const { signal, rules, reading, clock = machineClock } = asking
  const startedMs = clock.now()
  const alone: (Answered | undefined)[] = []
  let most = bodies.length
  while (alone.length < most && clock.now() - startedMs < longEnoughMs) {
    const { answer, bytes } = await ask(target, bodies[alone.length]!, asking)
    alone.push(answer)
    most = Math.min(most, answersHeld(bytes))
  }
  const asked = bodies.slice(0, alone.length)
  const askTogether = async () =>
    (await Promise.all(asked.map((body) => ask(target, body, asking)))).map(({ answer }) => answer)
  if (alone.some((answer) => answer && unexpected(answer.document, rules.expect))) return []
  const rounds = [alone, await askTogether()]
  if (!reading.tensors)
    await clock.sleep(Math.max(0, anotherSecondMs - (clock.now() - startedMs)), signal)
  rounds.push(await askTogether())
  return rounds
}

/** The first, and then at once as many more as are held together. */
async function askMany(
  target: HttpTarget,
  bodies: readonly number[],
  asking: Asking,
): Promise<(Answered | undefined)[]> {
  const [first, ...others] = bodies
  if (first === undefined) return []
  const { answer, bytes } = await ask(target, first, asking)
  const rest = await Promise.all(
    others.slice(0, answersHeld(bytes) - 1).map((body) => ask(target, body, asking)),
  )
  return [answer, ...rest.map((one) => one.answer)]
}

/** No answer in place of one that did not come: load tells how often that is. */
async function ask(
  target: HttpTarget,
  body: number,
  { reading, signal, logPath }: Asking,
): Promise<{ readonly answer?: Answered; readonly bytes: number }> {
  try {
    const bytes = await reading.ask(target, body, signal)
    const strange = target.meaning?.(target.bodies[body]!, bytes)
    if (strange !== undefined)
      throw new InfeasibleError('answers-differ', answeredBut(body, strange), logPath)
    return { answer: await reading.read(bytes), bytes: bytes.byteLength }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof InfeasibleError) throw error
    return { bytes: 0 }
  }
}
