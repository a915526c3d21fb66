/**
 * `tune watch`: reads production data, decides whether the recommendation is still valid, reports
 * it, and stores the state.
 */

import { setTimeout as wait } from 'node:timers/promises'
import { specTargets } from '../../../../reports/specs/index.ts'
import { type Proposal, replan } from '../../../../reports/watch/replan.ts'
import { coversWeek } from '../../../../reports/watch/traffic.ts'
import {
  createWatchState,
  evaluateWatch,
  needsReplanning,
  recordWindow,
  type WatchReport,
  type WatchState,
  watchSchema,
} from '../../../../reports/watch/watch.ts'
import {
  formatFinding,
  formatProposal,
  formatStatus,
} from '../../../../reports/watch/watch-text.ts'
import { getDemand } from '../../../../search/objective.ts'
import { deleteWatch, readWatches, StoreError, saveWatch } from '../../../../trials/store/index.ts'
import { parseDurationMs, parseShare } from '../../../config/values/units.ts'
import { createDamageReporter } from '../../../damage-reporter.ts'
import { exitCodes, UserError } from '../../../exit-codes.ts'
import { requireWritableFolder } from '../../../writable-paths.ts'
import { reportError } from '../../report-error.ts'
import { listenForInterrupts } from '../../signals.ts'
import { parseChoice } from '../command-options.ts'
import { requireStore } from '../open-existing.ts'
import { type ReopenedExperiment, reopenExperiment } from '../reopen-experiment.ts'
import { createSource } from './create-source.ts'
import {
  type DeployedConfiguration,
  listReplanOptions,
  resolveDeployed,
} from './deployed-configuration.ts'
import { writeProposal } from './proposal-files.ts'
import type { WatchFlags } from './watch-flags.ts'

/** Seconds between the end of a window and its evaluation. */
const evaluationDelayS = 35

export async function watch(id: string | undefined, flags: WatchFlags): Promise<number> {
  parseChoice(flags.target, specTargets, '--target')
  const windowS = parseDurationMs(flags.window) / 1000
  if (windowS < 10 || windowS > 1800 || windowS % 1 !== 0)
    throw new UserError(
      `--window ${flags.window}: a window must have 10 s to 30 min, in whole seconds`,
      'the default is 5m',
      exitCodes.usage,
    )
  requireWritableFolder('--out', flags.out)
  requireStore(flags.db)
  const { signal, dispose } = listenForInterrupts(() => {})
  try {
    // Later evaluations use the experiment of the first one, even if a newer one appears.
    const { experiment, seen, silent } = await evaluateOnce(id, flags, windowS, signal, true)
    if (flags.once) return resolveExitCode(seen, silent)
    for (;;) {
      await waitForNextWindow(windowS, signal)
      await evaluateOnce(experiment, flags, windowS, signal, false).catch((error: unknown) => {
        // A problem at the start is permanent. An unreachable Prometheus or a busy store later is
        // temporary.
        if (signal.aborted || !(error instanceof UserError || error instanceof StoreError))
          throw error
        reportError(error, process.stderr)
      })
    }
  } catch (error) {
    if (!signal.aborted) throw error
    return exitCodes.interrupted
  } finally {
    dispose()
  }
}

const getWallClockS = (): number => Date.now() / 1000

/** Waits until shortly after the end of the next window. */
const waitForNextWindow = (windowS: number, signal: AbortSignal): Promise<void> =>
  wait((windowS - (getWallClockS() % windowS) + evaluationDelayS) * 1000, undefined, { signal })

/**
 * One evaluation: reads new production data, updates the state, derives a proposal, and reports it.
 */
async function evaluateOnce(
  id: string | undefined,
  flags: WatchFlags,
  windowS: number,
  signal: AbortSignal,
  first: boolean,
): Promise<{
  readonly experiment: string
  readonly seen: WatchReport
  readonly silent: boolean
}> {
  const reopened = await reopenExperiment(id, { db: flags.db, prices: flags.prices })
  const name = flags.name ?? reopened.record.id
  if (first && flags.reset) await deleteWatch(flags.db, name)
  const stored = await loadWatch(flags.db, name, windowS)
  const deployed = resolveDeployed(reopened, flags, stored?.state.trial)
  const source = createSource(flags, windowS, reopened, deployed)
  const before =
    stored?.state.trial === deployed.trial
      ? stored
      : { state: createWatchState(deployed.trial), windowS }
  if (first) process.stderr.write(formatIntroduction(name, deployed, stored?.state.trial))
  const nowS = getWallClockS()
  const {
    windows,
    place,
    notes,
    silent = false,
  } = await source.read(nowS, before.state.untilS, before.place, signal)
  const state = windows.reduce((seen, window) => recordWindow(seen, window, deployed), before.state)
  await saveWatch(
    flags.db,
    name,
    { ...before, state, ...(place !== undefined && { place }) },
    new Date(nowS * 1000).toISOString(),
  )
  const evaluated = evaluateWatch(state, deployed)
  const proposal = propose(evaluated, reopened, deployed, flags)
  const written =
    flags.out === undefined || !proposal
      ? []
      : await writeProposal(reopened, proposal, {
          folder: flags.out,
          target: parseChoice(flags.target, specTargets, '--target'),
          peakRps: findPeakRps(evaluated, reopened),
          headroom: deployed.headroom,
          slowness: findSlowness(evaluated),
        })
  const outcome = { seen: evaluated, proposal, notes, written, reopened, deployed, flags, name }
  reportOutcome(outcome)
  return { experiment: reopened.record.id, seen: evaluated, silent }
}

const formatIntroduction = (
  name: string,
  { trial, label, recommended }: DeployedConfiguration,
  before: number | undefined,
): string =>
  [
    `${name}: trial ${trial}, ${label}\n`,
    ...(before !== undefined && before !== trial
      ? [`the watch starts again: it watched trial ${before} until now\n`]
      : []),
    ...(recommended !== undefined && recommended !== trial
      ? [
          `the recommendation is trial ${recommended}: add --trial ${recommended} once it is deployed\n`,
        ]
      : []),
  ].join('')

function propose(
  report: WatchReport,
  reopened: ReopenedExperiment,
  { trial, headroom }: DeployedConfiguration,
  flags: WatchFlags,
): Proposal | undefined {
  if (!report.findings.some(({ kind }) => needsReplanning(kind))) return undefined
  return replan({
    findings: report.findings,
    options: listReplanOptions(reopened, findSlowness(report)),
    deployed: { trial, ...(report.replicas !== undefined && { replicas: report.replicas }) },
    peakRps: findPeakRps(report, reopened),
    headroom,
    minGain: parseShare(flags.minGain),
  })
}

const findSlowness = ({ findings }: WatchReport): number =>
  Math.max(1, findings.find((finding) => finding.kind === 'drift')?.slowness ?? 1)

/** Finds the peak. Until a full week was observed, the planned demand counts too. */
const findPeakRps = ({ peakRps, state }: WatchReport, { experiment }: ReopenedExperiment): number =>
  Math.max(
    peakRps,
    !coversWeek(state.traffic) ? (getDemand(experiment.objective)?.demandRps ?? 0) : 0,
  )

interface WatchOutcome {
  readonly seen: WatchReport
  readonly proposal?: Proposal
  readonly notes: readonly string[]
  readonly written: readonly string[]
  readonly reopened: ReopenedExperiment
  readonly deployed: DeployedConfiguration
  readonly flags: WatchFlags
  readonly name: string
}

function reportOutcome({
  seen,
  proposal,
  notes,
  written,
  reopened,
  deployed,
  flags,
  name,
}: WatchOutcome): void {
  const command = proposal?.kind === 'tune again' ? formatCommand(proposal, reopened, flags) : ''
  if (flags.json) {
    const { state, drift, findings, replicas, peakRps } = seen
    const line = {
      ...{
        schema: 'tune.watch-look/v1',
        name,
        experiment: reopened.record.id,
        trial: deployed.trial,
        at: new Date().toISOString(),
      },
      ...{
        windows: state.windows,
        last: state.last,
        replicas,
        peakRps,
        drift,
        falseAlarmDays: deployed.drift.falseAlarmDays,
      },
      ...{
        findings: findings.map((finding) => ({
          ...finding,
          text: formatFinding(finding, deployed),
        })),
        proposal,
        command: command || undefined,
        written,
        notes,
      },
    }
    process.stdout.write(`${JSON.stringify(line)}\n`)
    return
  }
  const lines = [
    formatStatus(seen, deployed),
    ...seen.findings.map((finding) => `  ${formatFinding(finding, deployed)}`),
    ...(proposal ? [`  -> ${formatProposal(proposal, command)}`] : []),
    ...written.map((path) => `     ${path}`),
  ]
  process.stdout.write(`${lines.join('\n')}\n`)
  for (const note of notes) process.stderr.write(`${note}\n`)
}

/** Formats the command that would measure what is unknown. */
function formatCommand(
  proposal: Extract<Proposal, { kind: 'tune again' }>,
  { record, trials }: ReopenedExperiment,
  { db, out }: WatchFlags,
): string {
  if (!proposal.newModel)
    return `tune resume ${record.id} --max-trials ${trials.length + 10} --db ${db}`
  return out === undefined
    ? 'add --out FOLDER to write the experiment there, then run it on the new version'
    : `tune -f ${out}/experiment.yaml --db ${db}`
}

/**
 * @throws UserError without any production data, or without new data although windows are complete
 */
function resolveExitCode({ state, findings }: WatchReport, silent: boolean): number {
  if (state.windows === 0)
    throw new UserError(
      'no production data yet: no window is complete',
      'see the notes above, or try again later',
    )
  if (silent)
    throw new UserError(
      `no production data since ${new Date(state.untilS! * 1000).toISOString()}: it is unknown whether the service still runs`,
      'see the notes above',
    )
  if (findings.some(({ kind }) => kind === 'slo')) return exitCodes.sloUnmet
  return findings.length > 0 ? exitCodes.offPlan : exitCodes.ok
}

/** State of a watch between evaluations, in the store. */
interface SavedWatch {
  readonly state: WatchState
  readonly place?: unknown
  readonly windowS: number
}

/**
 * Loads the state of the last evaluation under that name.
 * @throws UserError if its windows had another length
 */
async function loadWatch(
  db: string,
  name: string,
  windowS: number,
): Promise<SavedWatch | undefined> {
  const storedWatch = (await readWatches(db, createDamageReporter(db))).get(name) as
    | SavedWatch
    | undefined
  if (storedWatch?.state?.schema !== watchSchema) return undefined
  if (storedWatch.windowS === windowS) return storedWatch
  throw new UserError(
    `the watch ${name} uses windows of ${storedWatch.windowS} s`,
    `use --window ${storedWatch.windowS}s, start again with --reset, or start another watch with --name`,
    exitCodes.usage,
  )
}
