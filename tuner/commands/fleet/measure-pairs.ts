/** Models that a packing puts on one GPU under MPS, launched together as they are planned and loaded at their planned rates: how much slower each is than alone. */
import { appendFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { HttpLoadGenerator, protocolFor, type Target } from '../../../profiler/index.ts'
import type { FleetPlan } from '../../../reports/fleet/fleet-plan.ts'
import { type MeasuredPair, pairsCsv } from '../../../reports/fleet/measured-pairs.ts'
import { FleetError, type PackedGpu, type Segment } from '../../../reports/fleet/packing.ts'
import { unmeasuredContents } from '../../../reports/fleet/sharing-blocks.ts'
import { createLocalLauncher } from '../../../trials/launchers/local/local-launcher.ts'
import type { BuiltinTemplate } from '../../../trials/launchers/template.ts'
import { inspectMachine, type MachineFacts } from '../../../trials/machine/machine-facts.ts'
import { spoken } from '../../../trials/predictor/protocol/spoken.ts'
import type { Predictor } from '../../../trials/types.ts'
import type { FleetModelEntry } from './fleet-file.ts'

interface PairsAsked {
  readonly plan: FleetPlan
  readonly models: readonly FleetModelEntry[]
  /** A CSV, to which rows are added. */
  readonly path: string
  /** Of each load. */
  readonly seconds: number
  readonly signal: AbortSignal
  readonly say: (what: string) => void
}

/** Contents one after the other; what was measured is in the file as soon as it is known. @throws FleetError for a model that nothing says how to start */
export async function measurePairs(asked: PairsAsked): Promise<MeasuredPair[]> {
  const contents = unmeasuredContents(asked.plan.atPeaks)
  const unknown = contents.flatMap(({ slots }) => slots).find(({ model }) => entryOf(asked.models, model!).builtin === undefined)
  if (unknown)
    throw new FleetError(
      `--measure-pairs: nothing says what serves ${unknown.model}`,
      'name the architecture that the built-in predictor is to serve for it: builtin: bert',
    )
  const machine = await inspectMachine()
  const found: MeasuredPair[] = []
  for (const content of contents) {
    const rows = await measuredOn(content, asked, machine)
    appendFileSync(asked.path, pairsCsv(rows, existsSync(asked.path)))
    found.push(...rows)
  }
  return found
}

const entryOf = (models: readonly FleetModelEntry[], name: string): FleetModelEntry => models.find((of) => of.name === name)!

interface Running {
  readonly model: string
  readonly segment: Segment
  readonly rateRps: number
  readonly predictor: Predictor
}

async function measuredOn(content: PackedGpu, asked: PairsAsked, machine: MachineFacts): Promise<MeasuredPair[]> {
  const { signal, say } = asked
  const folder = mkdtempSync(join(tmpdir(), 'tune-pairs-'))
  const running: Running[] = []
  try {
    for (const [i, { model, segment }] of content.slots.entries()) {
      say(`starting ${model} on ${segment!.slice} of a ${content.kind}`)
      const template: BuiltinTemplate = {
        kind: 'builtin',
        model: entryOf(asked.models, model!).builtin!,
        engine: 'auto',
        env: { EMULATED_NEIGHBOURS: join(folder, 'neighbours') },
      }
      const launcher = createLocalLauncher({
        template,
        parameters: [],
        protocol: protocolFor(spoken.tensors[0], {}),
        payload: { kind: 'generated', seed: 1, count: 64 },
        runDirectory: join(folder, `server-${i}`),
        machine,
      })
      const predictor = await launcher.launch(configurationOf(segment!), i + 1, signal)
      running.push({ model: model!, segment: segment!, rateRps: plannedRps(asked.plan, asked.models, model!, segment!), predictor })
    }
    const alone: number[] = []
    for (const one of running) {
      say(`${one.model} alone, ${Math.round(one.rateRps)} requests a second`)
      alone.push(...(await loaded([one], asked)))
    }
    say(`${running.map(({ model }) => model).join(' beside ')}`)
    const beside = await loaded(running, asked)
    return running.map(({ model, predictor }, i) => {
      const others = running.filter((_, j) => j !== i)
      return {
        kind: content.kind,
        model,
        others: others.map((of) => of.model),
        othersShare: others.reduce((sum, of) => sum + of.segment.share!, 0),
        aloneMs: alone[i]!,
        besideMs: beside[i]!,
        slowdown: beside[i]! / alone[i]!,
        emulated: predictor.provenance !== 'measured',
      }
    })
  } finally {
    for (const { predictor } of running) await predictor.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

/** At the peak, its part of what all replicas of the model carry. */
function plannedRps({ atPeaks, peaksRps }: FleetPlan, models: readonly FleetModelEntry[], model: string, { rateRps }: Segment): number {
  const carried = atPeaks.gpus
    .flatMap(({ slots }) => slots)
    .reduce((sum, slot) => sum + (slot.model === model ? slot.segment!.rateRps : 0), 0)
  return (peaksRps[models.findIndex(({ name }) => name === model)]! * rateRps) / carried
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

function configurationOf({ gpu, share, row }: Segment) {
  const told = Object.entries(row?.values ?? {}).flatMap(([column, value]) => {
    const name = settingOf[column.toLowerCase().replace(/[\s_-]/g, '')]
    return name === undefined ? [] : [[name, Number.isNaN(Number(value)) ? value : Number(value)] as const]
  })
  return { gpu, gpuMemoryPercent: 100 * share!, sharing: 'mps', ...Object.fromEntries(told) }
}

/** All at once, each at its rate: median latency of each, ms. */
async function loaded(all: readonly Running[], { seconds, signal }: PairsAsked): Promise<number[]> {
  const generators = all.map(() => new HttpLoadGenerator())
  try {
    const points = await Promise.all(
      all.map(({ rateRps, predictor }, i) =>
        generators[i]!.run(
          predictor.target as Target,
          { kind: 'open', rateRps, arrivals: { kind: 'poisson' }, durationS: seconds, seed: 1 },
          { percentile: 0.5, limitMs: Number.MAX_SAFE_INTEGER, maxErrorRate: 1 },
          signal,
        ),
      ),
    )
    for (const [i, { errors, requests }] of points.entries())
      if (errors > 0.01 * requests) throw new FleetError(`--measure-pairs: ${all[i]!.model} failed ${errors} of ${requests} requests`)
    return points.map(({ p50Ms }) => p50Ms)
  } finally {
    await Promise.all(generators.map((generator) => generator.close()))
  }
}
