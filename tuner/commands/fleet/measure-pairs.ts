/** Models that a packing puts on one GPU under MPS, launched together on their shares and kept busy: how much longer a batch of each takes than alone. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { HttpLoadGenerator, protocolFor, type Target } from '../../../profiler/index.ts'
import type { MeasuredPair } from '../../../reports/fleet/measured-pairs.ts'
import { FleetError, type PackedGpu, type Packing, type Segment } from '../../../reports/fleet/packing.ts'
import { unmeasuredContents } from '../../../reports/fleet/sharing-blocks.ts'
import { percent } from '../../../reports/format.ts'
import type { Configuration } from '../../../search/types.ts'
import { builtinMetrics } from '../../../trials/launchers/local/device-probes.ts'
import { createLocalLauncher } from '../../../trials/launchers/local/local-launcher.ts'
import type { BuiltinTemplate } from '../../../trials/launchers/template.ts'
import { inspectMachine, type MachineFacts } from '../../../trials/machine/machine-facts.ts'
import { spoken } from '../../../trials/predictor/protocol/spoken.ts'
import type { Predictor } from '../../../trials/types.ts'
import type { FleetModelEntry } from './fleet-file.ts'

interface PairsAsked {
  readonly atPeaks: Packing
  readonly models: readonly FleetModelEntry[]
  /** Of each load. */
  readonly seconds: number
  readonly signal: AbortSignal
  readonly say: (what: string) => void
  /** Of one GPU's content, as soon as it is known. */
  readonly keep: (pairs: readonly MeasuredPair[]) => void | Promise<void>
}

/** Contents one after the other; those of which all is known are left out. @throws FleetError for models that nothing says how to start */
export async function measurePairs(asked: PairsAsked): Promise<MeasuredPair[]> {
  const contents = unmeasuredContents(asked.atPeaks)
  const wanted = new Set(contents.flatMap(({ slots }) => slots.flatMap(({ model }) => model ?? [])))
  const unknown = [...wanted].filter((name) => entryOf(asked.models, name).builtin === undefined)
  if (unknown.length > 0)
    throw new FleetError(
      `--measure-pairs: nothing says what serves ${unknown.join(' and ')}`,
      'name an architecture that the built-in predictor is to serve in its place: builtin: bert',
    )
  if (contents.length === 0) return []
  const machine = await inspectMachine()
  const found: MeasuredPair[] = []
  for (const content of contents) {
    const pairs = await measuredOn(content, asked, machine)
    await asked.keep(pairs)
    found.push(...pairs)
  }
  return found
}

const entryOf = (models: readonly FleetModelEntry[], name: string): FleetModelEntry => models.find((of) => of.name === name)!

interface Running {
  readonly model: string
  readonly segment: Segment
  readonly predictor: Predictor
  readonly target: HttpTarget
}

type HttpTarget = Extract<Target, { readonly kind: 'http' }>

async function measuredOn(content: PackedGpu, asked: PairsAsked, machine: MachineFacts): Promise<MeasuredPair[]> {
  const folder = mkdtempSync(join(tmpdir(), 'tune-pairs-'))
  const running: Running[] = []
  try {
    for (const { model, segment } of content.slots) {
      asked.say(`starting ${model} on ${segment!.slice} of a ${content.kind}`)
      running.push(await started(model!, segment!, asked, { folder, machine, number: running.length }))
    }
    const alone: Loaded[] = []
    for (const one of running) {
      asked.say(`${one.model} alone`)
      alone.push(...(await loaded([one], asked)))
    }
    asked.say(running.map(({ model }) => model).join(' beside '))
    const beside = await loaded(running, asked)
    return running.map(({ model, predictor }, i) => {
      const [{ batchMs: aloneMs }, { batchMs: besideMs }] = [alone[i]!, beside[i]!]
      return {
        kind: content.kind,
        model,
        others: running.flatMap((of, j) => (j === i ? [] : [of.model])),
        othersShare: running.reduce((sum, { segment }, j) => sum + (j === i ? 0 : segment.share! * beside[j]!.busy), 0),
        aloneMs,
        besideMs,
        slowdown: besideMs / aloneMs,
        emulated: predictor.provenance !== 'measured',
      }
    })
  } finally {
    const stopped = await Promise.allSettled(running.map(({ predictor }) => predictor.stop()))
    rmSync(folder, { recursive: true, force: true })
    for (const one of stopped) if (one.status === 'rejected') asked.say(String(one.reason))
  }
}

interface Place {
  readonly folder: string
  readonly machine: MachineFacts
  readonly number: number
}

async function started(
  model: string,
  segment: Segment,
  { models, signal }: PairsAsked,
  { folder, machine, number }: Place,
): Promise<Running> {
  const template: BuiltinTemplate = {
    kind: 'builtin',
    model: entryOf(models, model).builtin!,
    engine: 'auto',
    env: { EMULATED_NEIGHBOURS: join(folder, 'neighbours') },
  }
  const configuration = configurationOf(segment)
  const batch = Number(configuration.batchSize ?? 1)
  const launcher = createLocalLauncher({
    template,
    parameters: [],
    protocol: protocolFor(spoken.tensors[0], {}),
    // A request is a batch: of another size it would take another time, however slow.
    payload: { kind: 'generated', seed: 1, count: 64, items: { kind: 'fixed', items: batch } },
    runDirectory: join(folder, `server-${number}`),
    // A core of its own as long as there are some: launchers do not know of one another.
    machine: { ...machine, affinity: [machine.affinity.at(-1 - (number % machine.affinity.length))!] },
  })
  const predictor = await launcher.launch(configuration, number + 1, signal)
  return { model, segment, predictor, target: predictor.target as HttpTarget }
}

/** Columns of tables by what the predictor calls them. */
const settingOf: Readonly<Record<string, string>> = {
  batch: 'batchSize',
  batchsize: 'batchSize',
  processes: 'instances',
  instances: 'instances',
  precision: 'precision',
  sequencelength: 'sequenceLength',
  maxdelayms: 'maxDelayMs',
}

function configurationOf({ gpu, share, row }: Segment): Configuration {
  const told = Object.entries(row?.values ?? {}).flatMap(([column, value]) => {
    const name = settingOf[column.toLowerCase().replace(/[\s_-]/g, '')]
    return name === undefined ? [] : [[name, Number.isNaN(Number(value)) ? value : Number(value)] as const]
  })
  return { gpu, gpuMemoryPercent: 100 * share!, sharing: 'mps', ...Object.fromEntries(told) }
}

interface Loaded {
  /** What a batch takes its GPU, mean. */
  readonly batchMs: number
  /** Of the time, 0-1. */
  readonly busy: number
}

/** All at once, each with a next batch waiting. */
async function loaded(all: readonly Running[], { seconds, signal }: PairsAsked): Promise<Loaded[]> {
  const generators = all.map(() => new HttpLoadGenerator())
  try {
    const runs = all.map(({ target }, i) =>
      generators[i]!.run(
        target,
        { kind: 'closed', connections: waiting, durationS: seconds + 2 * besideS },
        { percentile: 0.5, limitMs: Number.MAX_SAFE_INTEGER, maxErrorRate: 1 },
        signal,
      ),
    )
    const [[before, after], ...points] = await Promise.all([countedFor(all, seconds, signal), ...runs])
    return all.map(({ model }, i) => {
      const { errors, requests } = points[i]!
      const batches = after[i]!.batches - before[i]!.batches
      if (errors > 0) throw new FleetError(`--measure-pairs: of ${requests} requests to ${model} ${errors} failed`)
      const busySeconds = after[i]!.busySeconds - before[i]!.busySeconds
      const busy = Math.min(1, busySeconds / (after[i]!.readySeconds - before[i]!.readySeconds))
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
      all.map(({ model, target }) =>
        builtinMetrics(target.url).catch((error: Error) => {
          throw new FleetError(`--measure-pairs: ${model} did not tell what it has done: ${error.message}`)
        }),
      ),
    )
  await setTimeout(1000 * besideS, undefined, { signal })
  const before = await counted()
  await setTimeout(1000 * seconds, undefined, { signal })
  return [before, await counted()] as const
}

/** Loads begin and end one after the other: so long before and after what is counted. */
const besideS = 2
/** Batches under way, of each: one that is computed, and others on their way. */
const waiting = 4
/** Of one that is less, what it does to the others when it is busy is guessed more than measured. */
const leastBusy = 0.5
