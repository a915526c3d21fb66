/** `tune plan`: plans capacity from a stored experiment. */

import { extname, join } from 'node:path'
import { toHtml } from '../../../../reports/document/html.ts'
import { toMarkdown, toText } from '../../../../reports/document/markdown.ts'
import { renderSvg } from '../../../../reports/document/svg.ts'
import {
  createPatternDemand,
  createSteadyDemand,
  type Demand,
  demandPatterns,
  findPeakRps,
  parseDayTable,
} from '../../../../reports/plan/demand.ts'
import { formatPlanCsv, formatPlanJson, renderPlan } from '../../../../reports/plan/plan-blocks.ts'
import {
  type Plan,
  type PlanInput,
  type PlanUnit,
  planCapacity,
} from '../../../../reports/plan/plan-capacity.ts'
import { assumeStartup, countReplicasPerNode } from '../../../../reports/plan/startup.ts'
import { parseTraceDemand } from '../../../../reports/plan/trace-demand.ts'
import { listCandidates } from '../../../../reports/recommendation/candidates.ts'
import { rankCandidates } from '../../../../reports/recommendation/ranking.ts'
import { conclusions } from '../../../../reports/recommendation/types.ts'
import { writeAtomically } from '../../../../reports/report/write-atomically.ts'
import { renderSpec } from '../../../../reports/specs/index.ts'
import { listBundles, type PriceBook, pricePerHour } from '../../../../trials/prices/book.ts'
import { type CommittedPrice, listOffers } from '../../../../trials/prices/offers.ts'
import { findCheapestInstance } from '../../../../trials/prices/whole-instances.ts'
import { parseResources, type Resources } from '../../../../trials/resources.ts'
import { applyOwnPod } from '../../../artifacts/own-pod.ts'
import { resolveServing } from '../../../artifacts/serving.ts'
import {
  parseCount,
  parseDurationMs,
  parseMoney,
  parseRateRps,
  parseShare,
} from '../../../config/values/units.ts'
import { exitCodes, resolveExitCode, UserError } from '../../../exit-codes.ts'
import { readGivenFile } from '../../../given-file.ts'
import { createRankingCriteria, loadPriceBook } from '../../../problem/problem.ts'
import { requireWritableFiles, requireWritableFolder } from '../../../writable-paths.ts'
import { parseChoice } from '../command-options.ts'
import { type ReopenedExperiment, reopenExperiment } from '../reopen-experiment.ts'

export interface PlanFlags {
  readonly db: string
  readonly slo?: string
  readonly headroom?: string
  readonly demand?: string
  readonly trace?: string
  readonly pattern?: string
  readonly peak?: string
  readonly growth: string
  readonly months?: string
  readonly trials?: string
  readonly fleet?: string
  readonly zones: string
  readonly startup?: string
  readonly node?: string
  readonly reaction: string
  readonly minReplicas: string
  readonly prices: readonly string[]
  readonly committed?: string
  readonly out?: string
  readonly spec?: string
  readonly json?: boolean
}

/** Number of trials to plan with by default. */
const defaultPlannedTrials = 3

export async function plan(id: string | undefined, flags: PlanFlags): Promise<number> {
  const form = flags.json
    ? '.json'
    : flags.out === undefined
      ? '.txt'
      : extname(flags.out).toLowerCase()
  const render = formats[form]
  if (!render)
    throw new UserError(
      `--out ${flags.out}: a plan cannot be written as '${form}'`,
      'use .md, .html, .csv, .json or .txt',
      exitCodes.usage,
    )
  requireWritableFiles({ '--out': flags.out })
  requireWritableFolder('--spec', flags.spec)
  const demand = await parseDemand(flags)
  const reopened = await reopenExperiment(id, {
    db: flags.db,
    slo: flags.slo,
    prices: flags.prices[0],
  })
  if (reopened.experiment.stages !== undefined)
    throw new UserError(
      `experiment ${reopened.record.id} is of a pipeline: tune plan does not plan pipelines yet`,
      'scale the replicas of all stages together',
      exitCodes.usage,
    )
  const { gpus } = reopened.experiment.own
  const books = [
    reopened.book,
    ...(await Promise.all(flags.prices.slice(1).map((path) => loadPriceBook(path, gpus)))),
  ]
  const growthPerMonth = parseShare(flags.growth)
  const fleet = flags.fleet === undefined ? undefined : parseFleet(flags.fleet)
  const trialNumbers = flags.trials?.split(',').map((n) => parseCount(n.trim(), 1))
  const input: PlanInput = {
    recommended: reopened.recommendation.best?.trial,
    units: buildUnits(
      reopened,
      books,
      trialNumbers,
      fleet?.trial,
      parseStartTimes(flags),
      computeCommittedPrice(flags.committed, reopened.book),
    ),
    provenance: reopened.record.provenance,
    slo: reopened.experiment.slo,
    demand,
    headroom: parseShare(flags.headroom ?? '0%'),
    growthPerMonth,
    months:
      flags.months === undefined ? (growthPerMonth === 0 ? 1 : 12) : parseCount(flags.months, 1),
    zones: parseCount(flags.zones, 1),
    surroundings: {
      timeoutSeconds: reopened.experiment.load.timeoutMs / 1000,
      reactionSeconds: parseSeconds(flags.reaction)!,
    },
    minReplicas: parseCount(flags.minReplicas, 0),
    existing: fleet,
  }
  const capacityPlan = createPlan(input)
  const text = await render(capacityPlan, describeSource(reopened, input))
  if (flags.spec !== undefined) await writeScaledSpec(reopened, capacityPlan, flags.spec)
  if (flags.out === undefined) process.stdout.write(text)
  else {
    await writeAtomically(flags.out, text)
    process.stdout.write(`${flags.out}\n`)
  }
  return exitCodes.ok
}

/**
 * Computes the price of `--committed`; undefined: the price book's.
 * @throws UserError
 */
function computeCommittedPrice(
  text: string | undefined,
  book: PriceBook,
): CommittedPrice | undefined {
  if (text === undefined) return undefined
  if (book.isCommitted)
    throw new UserError(
      `the prices of '${book.name}' are already those of committed capacity`,
      'plan with on-demand prices: --prices aws-instances includes the committed prices',
      exitCodes.usage,
    )
  if (!text.trim().endsWith('%')) return { perHour: parseMoney(text) }
  const share = parseShare(text)
  if (share <= 0)
    throw new UserError(`--committed ${text} is not a price`, 'use more than 0%', exitCodes.usage)
  return { share }
}

/** Unlike other durations, these may be 0. */
const parseSeconds = (text: string | undefined): number | undefined =>
  text === undefined ? undefined : /^\s*0(s|ms)?\s*$/.test(text) ? 0 : parseDurationMs(text) / 1000

const parseStartTimes = ({ startup, node }: PlanFlags) => ({
  startup: parseSeconds(startup),
  node: parseSeconds(node),
})

/**
 * Writes the deployment with the autoscaler settings that violate the SLO in no minute, or with
 * fixed replicas if there are none.
 */
async function writeScaledSpec(
  { experiment, recommendation, trials }: ReopenedExperiment,
  { units, scaling, input }: Plan,
  folder: string,
): Promise<void> {
  const { unit, months } = units[0]!
  const fixed = {
    ...scaling.given.settings,
    minReplicas: months[0]!.replicas,
    maxReplicas: months[0]!.replicas,
  }
  const { minReplicas, maxReplicas, targetRps, behaviour } = scaling.lossless?.settings ?? fixed
  const candidate = listCandidates(recommendation).find((c) => c.trial === unit.trial)!
  const resolved = resolveServing(experiment, recommendation, candidate, trials, {
    demandRps: findPeakRps(input.demand),
    headroom: 1 - targetRps / unit.capacityRps,
    minReplicas,
    maxReplicas,
    scaling: behaviour,
  })
  if (!resolved.isScalable)
    process.stderr.write(
      'no autoscaler written: the capacity of this server was not measured. Run tune verify once it runs\n',
    )
  const isFixed = minReplicas === maxReplicas
  const files = await renderSpec(
    'kubernetes',
    applyOwnPod(experiment, resolved),
    isFixed ? { autoscaler: 'none' } : {},
  )
  const isScaled = files.some(({ text }) => text.includes('\nkind: HorizontalPodAutoscaler\n'))
  if (resolved.isScalable && !isFixed && !isScaled)
    process.stderr.write('no autoscaler written: see the note in the file\n')
  for (const file of files) {
    const path = join(folder, file.name)
    await writeAtomically(path, file.text)
    process.stderr.write(`${path}\n`)
  }
}

const formats: Readonly<Record<string, (plan: Plan, about: readonly string[]) => Promise<string>>> =
  {
    '.txt': async (plan, about) => toText(await renderPlan(plan, about)),
    '.md': async (plan, about) => toMarkdown(await renderPlan(plan, about)),
    '.html': async (plan, about) =>
      toHtml('tune: capacity plan', await renderPlan(plan, about, renderSvg)),
    '.csv': async (plan) => formatPlanCsv(plan),
    '.json': async (plan) => formatPlanJson(plan),
  }

function createPlan(input: PlanInput): Plan {
  try {
    return planCapacity(input)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw new UserError(error.message, 'see tune plan --help', exitCodes.usage)
  }
}

async function parseDemand({ demand, trace, pattern, peak }: PlanFlags): Promise<Demand> {
  if ([demand, trace, pattern].filter((given) => given !== undefined).length !== 1) {
    throw new UserError(
      'a plan needs exactly one demand',
      'set --demand 500, --trace FILE, or --pattern daily --peak 500',
      exitCodes.usage,
    )
  }
  if (trace !== undefined) {
    return parseTraceDemand(readGivenFile(trace, 'the trace', '--trace', 'table'), trace)
  }
  if (pattern !== undefined) {
    if (peak === undefined)
      throw new UserError(
        `pattern ${pattern} needs a peak rate`,
        'set --peak, requests per second',
        exitCodes.usage,
      )
    return createPatternDemand(
      parseChoice(pattern, demandPatterns, '--pattern'),
      parseRateRps(peak),
    )
  }
  return demand?.includes(':')
    ? parseDayTable(demand)
    : createSteadyDemand(parseRateRps(demand ?? ''))
}

function parseFleet(text: string): { trial: number; replicas: number } {
  const match = /^\s*(\d+)\s*x\s*(\d+)\s*$/.exec(text)
  if (!match)
    throw new UserError(
      `--fleet ${text} is not a fleet`,
      'write 6x3 for six replicas of trial 3',
      exitCodes.usage,
    )
  return { replicas: Number(match[1]), trial: Number(match[2]) }
}

function buildUnits(
  { trials, experiment, label, pricePerHour: price, record, recommendation }: ReopenedExperiment,
  books: readonly PriceBook[],
  requestedTrials: readonly number[] | undefined,
  fleet: number | undefined,
  userSeconds: { readonly startup?: number; readonly node?: number },
  committed: CommittedPrice | undefined,
): PlanUnit[] {
  const rankedCandidates = rankCandidates(
    trials,
    createRankingCriteria(experiment, { pricePerHour: price, label }),
  )
  // In the order of the recommendation. Configurations that are not known to meet the SLO are
  // planned with only if --trials names them.
  const ranked = listCandidates(recommendation).flatMap(
    (c) => rankedCandidates.find((j) => j.candidate.trial === c.trial) ?? [],
  )
  const serving = ranked.filter((j) => j.candidate.capacityRps > 0)
  const feasibleCandidates = serving.filter((j) => j.candidate.feasible)
  const numbers = new Set([
    ...(requestedTrials ??
      feasibleCandidates.slice(0, defaultPlannedTrials).map((j) => j.candidate.trial)),
    ...(fleet === undefined ? [] : [fleet]),
  ])
  const plannedCandidates = serving.filter((j) => numbers.has(j.candidate.trial))
  const missing = [...numbers].filter(
    (n) => !plannedCandidates.some((j) => j.candidate.trial === n),
  )
  if (missing.length > 0 || plannedCandidates.length === 0) {
    const servingTrials = serving.map((j) => j.candidate.trial).join(', ')
    const what =
      missing.length > 0
        ? ` has no trial ${missing.join(', ')} that serves`
        : `: ${conclusions[recommendation.conclusion]}`
    throw new UserError(
      `experiment ${record.id}${what}`,
      servingTrials ? `trials that serve: ${servingTrials}` : 'set another SLO with --slo',
      missing.length > 0 ? exitCodes.usage : resolveExitCode(recommendation),
    )
  }
  return plannedCandidates.map(({ candidate, trial, measurement, curve }): PlanUnit => {
    const resources = parseResources(candidate.configuration, {}, experiment.own.gpus)
    const assumed = assumeStartup(resources, candidate.tokens !== undefined)
    // Simulated launches take no time, and emulated ones differ from the real server.
    const launched =
      experiment.devicesUsed === 'emulated' ? undefined : trial.usage?.launchSeconds || undefined
    const isSharedGpu = resources.gpu !== undefined && resources.gpuShare < 1
    return {
      label:
        candidate.bound === 'upper' ? `${candidate.label} (capacity at most)` : candidate.label,
      trial: candidate.trial,
      status: candidate.status,
      capacityRps: candidate.capacityRps,
      tokens: candidate.tokens,
      curve,
      limitMs: experiment.slo.limitMs,
      percentile: experiment.slo.percentile,
      saturationRps: measurement?.saturationRps,
      startupSeconds: userSeconds.startup ?? launched ?? assumed.startupSeconds,
      nodeSeconds: userSeconds.node ?? trial.usage?.nodeWaitSeconds ?? assumed.nodeSeconds,
      replicasPerNode:
        findCheapestInstance(resources, books[0]!.instances ?? [])?.replicasEach ??
        countReplicasPerNode(resources),
      measuredLaunchSeconds: launched,
      resources,
      prices: books.map((book) => ({
        name: book.name,
        currency: book.currency,
        perHour: pricePerHour(resources, book),
        bundles: listBundles(resources, book),
      })),
      offers: listOffers(resources, books[0]!, committed),
      ...(isSharedGpu ? priceWholeGpu({ ...resources, gpuShare: 1 }, books[0]!) : {}),
    }
  })
}

const priceWholeGpu = (whole: Resources, book: PriceBook) => ({
  wholeGpuPerHour: pricePerHour(whole, book),
  wholeGpuBundles: listBundles(whole, book),
})

function describeSource(
  { record, recommendation }: ReopenedExperiment,
  { units }: PlanInput,
): string[] {
  const trials = units.map((u) => u.trial).join(', ')
  return [
    recommendation.verdict,
    `From experiment ${record.id}, trial${units.length === 1 ? '' : 's'} ${trials}; capacities are ${record.provenance}.`,
    ...recommendation.caveats.slice(0, 3),
  ]
}
