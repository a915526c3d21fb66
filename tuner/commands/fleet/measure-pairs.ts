/**
 * Models that a packing puts on one GPU under MPS, launched together on their shares and kept busy:
 * how much longer a batch of each takes than alone.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { HttpLoadGenerator, type Target } from '../../../profiler/index.ts'
import type { MeasuredPair } from '../../../reports/fleet/measured-pairs.ts'
import {
  FleetError,
  type PackedGpu,
  type Packing,
  type Segment,
} from '../../../reports/fleet/packing.ts'
import { unmeasuredContents } from '../../../reports/fleet/sharing-blocks.ts'
import { percent } from '../../../reports/format.ts'
import { builtinMetrics } from '../../../trials/launchers/local/device-probes.ts'
import { inspectMachine, type MachineFacts } from '../../../trials/machine/machine-facts.ts'
import { InfeasibleError, LaunchError, type Predictor } from '../../../trials/types.ts'
import type { FleetModelEntry } from './fleet-file.ts'
import { type Place, pairServerOf } from './pair-servers.ts'

interface PairsAsked {
  readonly atPeaks: Packing
  readonly models: readonly FleetModelEntry[]
  /** Of each load. */
  readonly seconds: number
  readonly signal: AbortSignal
  readonly say: (what: string) => void
  /** Of one GPU's content, as soon as it is known. */
  readonly keep: (pairs: readonly MeasuredPair[]) => void | Promise<void>
  /** On which they are started; absent: as this one is found. */
  readonly machine?: MachineFacts
}

/**
 * Contents one after the other; those of which all is known are left out. @throws FleetError for
 * models that nothing says how to start
 */
export async function measurePairs(asked: PairsAsked): Promise<MeasuredPair[]> {
  const contents = unmeasuredContents(asked.atPeaks)
  const wanted = new Set(contents.flatMap(({ slots }) => slots.flatMap(({ model }) => model ?? [])))
  const unknown = [...wanted].filter((name) => {
    const { builtin, server } = entryOf(asked.models, name)
    return (builtin ?? server) === undefined
  })
  if (unknown.length > 0)
    throw new FleetError(
      `--measure-pairs: nothing says what serves ${unknown.join(' and ')}`,
      'name an experiment file that starts it: server: bert.yaml; or an architecture that the built-in predictor is to serve in its place: builtin: bert',
    )
  if (contents.length === 0) return []
  const machine = asked.machine ?? (await inspectMachine())
  const found: MeasuredPair[] = []
  for (const content of contents) {
    const pairs = await measuredOn(content, asked, machine)
    await asked.keep(pairs)
    found.push(...pairs)
  }
  return found
}

const entryOf = (models: readonly FleetModelEntry[], name: string): FleetModelEntry =>
  models.find((of) => of.name === name)!

interface Running {
  readonly model: string
  readonly segment: Segment
  readonly predictor: Predictor
  readonly target: Extract<Target, { readonly kind: 'http' }>
  readonly connections: number
  readonly countsBatches: boolean
}

async function measuredOn(
  content: PackedGpu,
  asked: PairsAsked,
  machine: MachineFacts,
): Promise<MeasuredPair[]> {
  const folder = mkdtempSync(join(tmpdir(), 'tune-pairs-'))
  const running: Running[] = []
  try {
    for (const { model, segment } of content.slots) {
      asked.say(`starting ${model} on ${segment!.slice} of a ${content.kind}`)
      running.push(
        await started(model!, segment!, asked, {
          folder,
          machine,
          number: running.length,
          of: content.slots.length,
        }),
      )
    }
    const alone: Loaded[] = []
    for (const one of running) {
      asked.say(`${one.model} alone`)
      alone.push(...(await loaded([one], asked)))
    }
    asked.say(running.map(({ model }) => model).join(' beside '))
    const beside = await loaded(running, asked)
    return running.map(({ model, predictor, countsBatches }, i) => {
      const [{ batchMs: aloneMs }, { batchMs: besideMs }] = [alone[i]!, beside[i]!]
      return {
        kind: content.kind,
        model,
        others: running.flatMap((of, j) => (j === i ? [] : [of.model])),
        othersShare: running.reduce(
          (sum, { segment }, j) => sum + (j === i ? 0 : segment.share! * beside[j]!.busy),
          0,
        ),
        aloneMs,
        besideMs,
        slowdown: besideMs / aloneMs,
        each: countsBatches ? 'batch' : 'answer',
        emulated: predictor.provenance !== 'measured',
      }
    })
  } finally {
    const stopped = await Promise.allSettled(running.map(({ predictor }) => predictor.stop()))
    rmSync(folder, { recursive: true, force: true })
    for (const one of stopped) if (one.status === 'rejected') asked.say(String(one.reason))
  }
}

async function started(
  model: string,
  segment: Segment,
  { models, signal }: PairsAsked,
  place: Place,
): Promise<Running> {
  const { launcher, configuration, connections, countsBatches } = pairServerOf(
    entryOf(models, model),
    segment,
    place,
  )
  try {
    const predictor = await launcher.launch(configuration, place.number + 1, signal)
    if (predictor.target.kind !== 'http')
      throw new TypeError(`${predictor.protocol} is not asked over a network`)
    return { model, segment, predictor, target: predictor.target, connections, countsBatches }
  } catch (error) {
    if (!(error instanceof InfeasibleError || error instanceof LaunchError)) throw error
    throw new FleetError(
      `--measure-pairs: ${model} on ${segment.slice} of a ${segment.gpu}: ${error.message}`,
      'hint' in error ? error.hint : undefined,
    )
  }
}

interface Loaded {
  /**
   * What a batch takes its GPU, mean; of a server that does not count them, the time from one
   * answer to the next.
   */
  readonly batchMs: number
  /** Of the time, 0-1. */
  readonly busy: number
}

/**
 * All at once, each with a next batch waiting. A server that does not count its batches is taken to
 * be as busy as it gets.
 */
async function loaded(all: readonly Running[], { seconds, signal }: PairsAsked): Promise<Loaded[]> {
  const generators = all.map(() => new HttpLoadGenerator())
  try {
    const runs = all.map(({ target, connections }, i) =>
      generators[i]!.run(
        target,
        { kind: 'closed', connections, durationS: seconds + 2 * besideS },
        { percentile: 0.5, limitMs: Number.MAX_SAFE_INTEGER, maxErrorRate: 1 },
        signal,
      ),
    )
    const [[before, after], ...points] = await Promise.all([
      countedFor(all, seconds, signal),
      ...runs,
    ])
    return all.map(({ model }, i) => {
      const { errors, requests, achievedRps } = points[i]!
      if (errors > 0)
        throw new FleetError(
          `--measure-pairs: of ${requests} requests to ${model} ${errors} failed`,
        )
      const [first, last] = [before[i], after[i]]
      if (first === undefined || last === undefined) {
        if (!(achievedRps > 0))
          throw new FleetError(`--measure-pairs: ${model} answered nothing in ${seconds} s`)
        return { batchMs: 1000 / achievedRps, busy: 1 }
      }
      const batches = last.batches - first.batches
      const busySeconds = last.busySeconds - first.busySeconds
      const busy = Math.min(1, busySeconds / (last.readySeconds - first.readySeconds))
      if (busy < leastBusy || batches === 0)
        throw new FleetError(
          `--measure-pairs: ${model} kept its GPU busy ${percent(busy)} of the time, too little for what the others are to feel`,
          `the cores of this machine are the limit: give it more of them, or ${model} larger batches`,
        )
      return { batchMs: (1000 * busySeconds) / batches, busy }
    })
  } finally {
    await Promise.all(generators.map((generator) => generator.close()))
  }
}

/** Before and after that time, in which all are loaded. */
async function countedFor(all: readonly Running[], seconds: number, signal: AbortSignal) {
  const counted = () =>
    Promise.all(
      all.map(async ({ model, target, countsBatches }) => {
        if (!countsBatches) return undefined
        return builtinMetrics(target.url).catch((error: Error) => {
          throw new FleetError(
            `--measure-pairs: ${model} did not tell what it has done: ${error.message}`,
          )
        })
      }),
    )
  await setTimeout(1000 * besideS, undefined, { signal })
  const before = await counted()
  await setTimeout(1000 * seconds, undefined, { signal })
  return [before, await counted()] as const
}

/** Loads begin and end one after the other: so long before and after what is counted. */
const besideS = 2
/**
 * Of one that is less, what it does to the others when it is busy is guessed more than measured.
 */
const leastBusy = 0.5
