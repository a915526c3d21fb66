/**
 * A launcher that checks the answers of its predictors, before they are measured and under load. An
 * answer must fit its request, the user's expectations, and the golden answers: those of the first
 * configuration. It answers the same requests several times, so that fields which differ each time
 * are left out of the comparison (profiler/protocols/golden-answers.ts).
 */
import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { limitAnswersInMemory } from '../../profiler/bounded-reader.ts'
import type { Target } from '../../profiler/model/target.ts'
import {
  AnswerCheck,
  type AnswerSpec,
  describeWrongAnswer,
} from '../../profiler/protocols/answer-check.ts'
import { type Expectation, findViolation } from '../../profiler/protocols/expectations.ts'
import {
  buildGoldenAnswers,
  detectBits,
  type GoldenAnswers,
} from '../../profiler/protocols/golden-answers.ts'
import type { AnswerClient, ParsedAnswer } from '../../profiler/protocols/protocol.ts'
import type { Configuration } from '../../search/types.ts'
import { mapTexts, redactSecrets } from '../secrets.ts'
import { InfeasibleError, type Launcher, type Predictor } from '../types.ts'
import type { GoldenStore } from './golden-store.ts'
import type { PredictorTemplate } from './template.ts'
import { applyVariant, variantParameter } from './variants.ts'

export interface AnswerRules {
  readonly expect: readonly Expectation[]
  /**
   * Answers to compare with: those of the first configuration, none, or those of a file, in the order
   * of the payload's requests.
   */
  readonly golden:
    | 'first'
    | 'off'
    | { readonly file: string; readonly documents: readonly unknown[] }
  /** Allowed difference of numbers, as a share of the largest. Default: what the precision allows. */
  readonly tolerance?: number
}

interface CheckedAnswersOptions {
  readonly rules: AnswerRules
  readonly template: PredictorTemplate
  readonly answerClient: AnswerClient
  readonly store: GoldenStore
  /** Default: the machine's clock. Tests use a virtual one. */
  readonly clock?: { now(): number; sleep(ms: number, signal: AbortSignal): Promise<unknown> }
}

const machineClock: NonNullable<CheckedAnswersOptions['clock']> = {
  now: () => performance.now(),
  sleep: (ms, signal) => sleep(ms, undefined, { signal }),
}

type HttpTarget = Extract<Target, { kind: 'http' }>

/** Number of different requests whose answers are compared. */
const maxBodies = 8
/** Requests of the payload that are searched for different ones. */
const maxBodiesSearched = 512
/** Slow servers answer fewer requests in the first round. */
const firstRoundMs = 4_000
/** After this long a timestamp in seconds has changed. */
const nextSecondMs = 1_100

export function withCheckedAnswers<L extends Launcher>(
  inner: L,
  options: CheckedAnswersOptions,
): L {
  const answerClient = removeSecrets(options.answerClient)
  return {
    ...inner,
    launch: async (configuration, trialNumber, signal, onWaiting) => {
      const predictor = await inner.launch(configuration, trialNumber, signal, onWaiting)
      if (predictor.target.kind !== 'http') return predictor
      try {
        return await checkAnswers(predictor, predictor.target, {
          ...options,
          answerClient,
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

/** A server may repeat its request, including secrets. */
function removeSecrets(answerClient: AnswerClient): AnswerClient {
  const clear = ({ document, result, ...rest }: ParsedAnswer): ParsedAnswer => ({
    ...rest,
    document: mapTexts(document, redactSecrets),
    result: mapTexts(result, redactSecrets),
  })
  return {
    ...answerClient,
    parse: async (answer) => clear(await answerClient.parse(answer)),
    interpret: async (document) => clear(await answerClient.interpret(document)),
  }
}

interface CheckContext extends CheckedAnswersOptions {
  readonly configuration: Configuration
  readonly trialNumber: number
  readonly signal: AbortSignal
  readonly logPath?: string
}

/** @returns the predictor with a check of the answers under load */
async function checkAnswers(
  predictor: Predictor,
  target: HttpTarget,
  context: CheckContext,
): Promise<Predictor> {
  const { rules, template, answerClient } = context
  const answersInFile = typeof rules.golden === 'object' ? rules.golden.documents.length : undefined
  const bodies =
    answersInFile === undefined
      ? selectDifferentBodies(target)
      : Array.from({ length: Math.min(answersInFile, target.bodies.length) }, (_, i) => i)
  const { configuration: served } = applyVariant(template, context.configuration)
  const bits = detectBits(Object.values(served))
  const golden = await getGoldenAnswers(target, bodies, bits, context)
  const { expect, tolerance } = rules
  const spec: AnswerSpec = { expect, golden, bits, configuration: context.configuration, tolerance }
  const before = new AnswerCheck(spec, answerClient)
  // The configuration that just gave the golden answers need not answer again.
  const isOwn = golden?.source === nameTrial(context)
  const answers = isOwn ? [] : await requestAnswers(target, bodies, context)
  for (const [i, answer] of answers.entries())
    if (answer !== undefined) before.checkAnswer(bodies[i]!, answer)
  const fault = await before.findFault()
  if (fault !== undefined) throw new InfeasibleError('answers-differ', fault, predictor.logPath)
  const underLoad = new AnswerCheck(spec, answerClient, target)
  return {
    ...predictor,
    target: {
      ...target,
      sample: { bodies, onSample: (body, answer) => underLoad.checkBytes(body, answer) },
    },
    answers: { spec, bodies, fault: () => underLoad.findFault() },
  }
}

/** Indices of different bodies, spread evenly over all of them. */
function selectDifferentBodies({ bodies }: HttpTarget): number[] {
  const seenHashes = new Set<string>()
  const different: number[] = []
  for (const [i, { body }] of bodies.slice(0, maxBodiesSearched).entries()) {
    const hash = createHash('sha1').update(body).digest('hex')
    if (seenHashes.has(hash)) continue
    seenHashes.add(hash)
    different.push(i)
  }
  const count = Math.min(maxBodies, different.length)
  return Array.from(
    { length: count },
    (_, i) => different[Math.floor((i * different.length) / count)]!,
  )
}

const nameTrial = ({ trialNumber }: CheckContext): string => `trial ${trialNumber}`

async function getGoldenAnswers(
  target: HttpTarget,
  bodies: readonly number[],
  bits: GoldenAnswers['bits'],
  context: CheckContext,
): Promise<GoldenAnswers | undefined> {
  const { rules, answerClient, store, configuration } = context
  if (rules.golden === 'off') return undefined
  if (rules.golden !== 'first') {
    const { file, documents } = rules.golden
    const answers = await Promise.all(bodies.map((body) => answerClient.interpret(documents[body])))
    return buildGoldenAnswers({ source: file, bits: 32, configuration: {} }, bodies, [answers])
  }
  return store.get(writeKey(context, target, bodies), async () => {
    const rounds = await requestRounds(target, bodies, context)
    const golden = buildGoldenAnswers(
      { source: nameTrial(context), bits, configuration },
      bodies,
      rounds,
    )
    return golden.answers.length === 0 ? undefined : golden
  })
}

/**
 * Key of the configurations that should answer the same: the same requests to the same model. A
 * variant is another model, unless it is this one in another precision.
 */
function writeKey(
  { template, configuration: given }: CheckContext,
  target: HttpTarget,
  bodies: readonly number[],
): string {
  const { template: served, configuration } = applyVariant(template, given)
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
 * Answers to the same requests in three rounds: one by one, concurrently, and concurrently once
 * more, at least a second later where answers may contain a timestamp. Empty if an answer differs
 * from the user's expectation.
 */
async function requestRounds(
  target: HttpTarget,
  bodies: readonly number[],
  context: CheckContext,
): Promise<(ParsedAnswer | undefined)[][]> {
  const { signal, rules, answerClient, clock = machineClock } = context
  const startedMs = clock.now()
  const first: (ParsedAnswer | undefined)[] = []
  let count = bodies.length
  while (first.length < count && clock.now() - startedMs < firstRoundMs) {
    const { answer, bytes } = await requestAnswer(target, bodies[first.length]!, context)
    first.push(answer)
    count = Math.min(count, limitAnswersInMemory(bytes))
  }
  const answered = bodies.slice(0, first.length)
  const requestAll = async () =>
    (await Promise.all(answered.map((body) => requestAnswer(target, body, context)))).map(
      ({ answer }) => answer,
    )
  if (first.some((answer) => answer && findViolation(answer.document, rules.expect))) return []
  const rounds = [first, await requestAll()]
  if (!answerClient.isResultFromModelOnly)
    await clock.sleep(Math.max(0, nextSecondMs - (clock.now() - startedMs)), signal)
  rounds.push(await requestAll())
  return rounds
}

/** Answers to the first request, then concurrently to as many more as fit into memory. */
async function requestAnswers(
  target: HttpTarget,
  bodies: readonly number[],
  context: CheckContext,
): Promise<(ParsedAnswer | undefined)[]> {
  const [first, ...others] = bodies
  if (first === undefined) return []
  const { answer, bytes } = await requestAnswer(target, first, context)
  const rest = await Promise.all(
    others
      .slice(0, limitAnswersInMemory(bytes) - 1)
      .map((body) => requestAnswer(target, body, context)),
  )
  return [answer, ...rest.map((one) => one.answer)]
}

/** Has no answer if the request failed: the load test counts such errors. */
async function requestAnswer(
  target: HttpTarget,
  body: number,
  { answerClient, signal, logPath }: CheckContext,
): Promise<{ readonly answer?: ParsedAnswer; readonly bytes: number }> {
  try {
    const bytes = await answerClient.fetch(target, body, signal)
    const fault = target.findFault?.(target.bodies[body]!, bytes)
    if (fault !== undefined)
      throw new InfeasibleError('answers-differ', describeWrongAnswer(body, fault), logPath)
    return { answer: await answerClient.parse(bytes), bytes: bytes.byteLength }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof InfeasibleError) throw error
    return { bytes: 0 }
  }
}
