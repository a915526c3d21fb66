/** Real runs of `tune`, and where their seconds go, for `npm run bench:main-job` and the gate. */
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { LoadPoint } from '../../profiler/index.ts'
import type { Recommendation } from '../../reports/recommendation/types.ts'
import { configurationKey } from '../../search/space/space.ts'
import { inspectMachine } from '../../trials/machine/machine-facts.ts'
import { applyEvent, estimateRemainingSeconds, initialProgress } from '../cli/render/progress.ts'
import type { TuneEvent } from '../loop/events.ts'
import { experimentIn, modelledCosts } from './emulated-truth.ts'

const cli = fileURLToPath(new URL('../../dist/tuner/cli.js', import.meta.url))
/** As a share: what is near enough to the cheapest. */
export const WITHIN = 0.05

/** Where seconds go: launching, each phase of a trial, choosing, confirming. */
export type Spent = Map<string, number>

export interface MainJobRun {
  readonly seconds: number
  readonly spent: Spent
  readonly recommendation: Recommendation
  readonly exitCode: number | null
  /** Of the first confirmation: the rate that was asked, and whether it held. */
  readonly first?: {
    readonly rateRps: number
    readonly met: boolean
    readonly estimateRps?: number
    readonly believedRps?: number
  }
  /** Said on the terminal after each trial, beside what it took from there, seconds. */
  readonly etas: readonly { readonly saidS: number; readonly tookS: number }[]
  readonly cwd: string
}

/** What the time before an event was spent on. */
function purposeOf(event: TuneEvent, confirming: boolean): string {
  if (confirming) return 'confirmation'
  if (event.type === 'predictor-ready') return 'launch'
  if (event.type === 'load-step') return event.phase
  if (event.type === 'trial-started') return 'choosing'
  return 'else'
}

/**
 * The built command with a seed, its store in a folder of its own below the one given.
 * @throws Error where it recommends nothing
 */
export async function runMainJob(
  flags: readonly string[],
  seed: number,
  folder: string,
): Promise<MainJobRun> {
  if (!existsSync(cli)) throw new Error('build first: npm run build')
  const cwd = mkdtempSync(join(folder, 'run-'))
  const startMs = Date.now()
  const child = spawn(process.execPath, [cli, ...flags, '--seed', String(seed), '--events'], {
    cwd,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const exit = new Promise<number | null>((resolve) => child.once('exit', resolve))
  const spent: Spent = new Map()
  let lastMs = startMs
  let confirming = false
  let asked: LoadPoint | undefined
  let first: MainJobRun['first']
  /** Of each configuration: what its trial told, and what the search had believed of it. */
  const told = new Map<
    string,
    Pick<NonNullable<MainJobRun['first']>, 'estimateRps' | 'believedRps'>
  >()
  let toConfirm = ''
  let recommendation: Recommendation | undefined
  let progress = initialProgress
  const said: { readonly atMs: number; readonly saidS: number }[] = []
  for await (const line of createInterface({ input: child.stdout })) {
    const event = JSON.parse(line) as TuneEvent
    const atMs = Date.parse(event.at)
    if (event.type === 'confirming') {
      confirming = true
      toConfirm = configurationKey(event.configuration)
    }
    if (event.type === 'trial-finished' && event.trial.state === 'complete') {
      const { configuration, measurement, predicted } = event.trial
      told.set(configurationKey(configuration), {
        estimateRps: measurement.capacityRps,
        believedRps: predicted?.rate,
      })
    }
    const purpose = purposeOf(event, confirming)
    spent.set(purpose, (spent.get(purpose) ?? 0) + (atMs - lastMs) / 1000)
    lastMs = atMs
    if (event.type === 'load-step' && event.phase === 'confirm') asked ??= event.point
    if (event.type === 'confirmed' && first === undefined && asked?.load.kind === 'open')
      first = {
        rateRps: asked.load.rateRps,
        met: event.met && event.rateRps >= asked.load.rateRps,
        ...told.get(toConfirm),
      }
    if (event.type === 'trial-started') confirming = false
    if (event.type === 'recommended') recommendation = event.recommendation
    progress = applyEvent(progress, event)
    const saidS =
      event.type === 'trial-finished' ? estimateRemainingSeconds(progress, atMs) : undefined
    if (saidS !== undefined) said.push({ atMs, saidS })
  }
  const exitCode = await exit
  if (recommendation === undefined)
    throw new Error(`seed ${seed} ended with ${exitCode} and recommended nothing`)
  const etas = said.map(({ atMs, saidS }) => ({ saidS, tookS: (lastMs - atMs) / 1000 }))
  return { seconds: (lastMs - startMs) / 1000, spent, recommendation, exitCode, first, etas, cwd }
}

/**
 * Costs of the space that the job in a folder searched, cheapest first, by the device model on
 * cores
 * of this speed.
 */
export async function modelledSpace(cwd: string, coreSpeed: number) {
  const cores = { speed: coreSpeed, count: (await inspectMachine()).affinity.length }
  const experiment = { ...(await experimentIn(cwd)), cores }
  return { experiment, modelled: await modelledCosts(experiment) }
}

/** Whether what a run recommends is near enough to the cheapest by the device model. */
export function isNearCheapest(
  { recommendation: { best } }: MainJobRun,
  modelled: Awaited<ReturnType<typeof modelledCosts>>,
): boolean {
  const [cheapest] = modelled.values()
  const found = best && modelled.get(configurationKey(best.configuration))
  return found !== undefined && found.cost <= (1 + WITHIN) * cheapest!.cost
}
