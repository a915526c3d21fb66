/**
 * `tune watch`: looks at production, decides whether the recommendation holds, tells it, and keeps
 * what was seen in the store.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { specTargets } from '../../../reports/specs/index.ts'
import { type Proposal, replan } from '../../../reports/watch/replan.ts'
import { coversWeek } from '../../../reports/watch/traffic.ts'
import {
  createWatchState,
  evaluateWatch,
  needsReplanning,
  recordWindow,
  type WatchReport,
} from '../../../reports/watch/watch.ts'
import { formatFinding, formatProposal, formatStatus } from '../../../reports/watch/watch-text.ts'
import { getDemand } from '../../../search/objective.ts'
import { dropWatch, keepWatch, StoreError } from '../../../trials/store/index.ts'
import { parseDurationMs, parseShare } from '../../config/units.ts'
import { exitCodes, UserError } from '../../exit-codes.ts'
import { reportError } from '../../report-error.ts'
import { interruptible } from '../../signals.ts'
import { mustTakeFiles } from '../../writable-places.ts'
import { oneOf } from '../one-of.ts'
import { existingStore } from '../open-existing.ts'
import { type Reopened, reopen } from '../reopened.ts'
import { sourceOf } from './chosen-source.ts'
import { keptOf } from './kept-watch.ts'
import { writeProposal } from './proposal-files.ts'
import type { WatchFlags } from './watch-flags.ts'
import { type Deployed, deployedOf, optionsAt } from './watched.ts'

/** Seconds after a window's end at which it is looked at. */
const comesLateS = 35

export async function watch(id: string | undefined, flags: WatchFlags): Promise<number> {
  oneOf(flags.target, specTargets, '--target')
  const windowS = parseDurationMs(flags.window) / 1000
  if (windowS < 10 || windowS > 1800 || windowS % 1 !== 0)
    throw new UserError(
      `--window ${flags.window}: a window must have 10 s to 30 min, in whole seconds`,
      'the default is 5m',
      exitCodes.usage,
    )
  mustTakeFiles('--out', flags.out)
  existingStore(flags.db)
  const { signal, dispose } = interruptible(() => {})
  try {
    // The experiment of the first look stays the one, whichever is the newest later.
    const { experiment, seen, silent } = await looked(id, flags, windowS, signal, true)
    if (flags.once) return codeOf(seen, silent)
    for (;;) {
      await nextLook(windowS, signal)
      await looked(experiment, flags, windowS, signal, false).catch((error: unknown) => {
        // What is wrong from the start stays wrong; a Prometheus that is away, and a store that is
        // busy, come back.
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

const wallClockS = (): number => Date.now() / 1000

/** Shortly after the end of the next window. */
const nextLook = (windowS: number, signal: AbortSignal): Promise<void> =>
  wait((windowS - (wallClockS() % windowS) + comesLateS) * 1000, undefined, { signal })

/**
 * One look: the experiment and today's prices, what is new in production, what follows; kept and
 * told.
 */
async function looked(
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
  const reopened = await reopen(id, { db: flags.db, prices: flags.prices })
  const name = flags.name ?? reopened.record.id
  if (first && flags.reset) await dropWatch(flags.db, name)
  const kept = await keptOf(flags.db, name, windowS)
  const deployed = deployedOf(reopened, flags, kept?.state.trial)
  const source = sourceOf(flags, windowS, reopened, deployed)
  const before =
    kept?.state.trial === deployed.trial
      ? kept
      : { state: createWatchState(deployed.trial), windowS }
  if (first) process.stderr.write(introduction(name, deployed, kept?.state.trial))
  const nowS = wallClockS()
  const {
    windows,
    place,
    notes,
    silent = false,
  } = await source.read(nowS, before.state.untilS, before.place, signal)
  const state = windows.reduce((seen, window) => recordWindow(seen, window, deployed), before.state)
  await keepWatch(
    flags.db,
    name,
    { ...before, state, ...(place !== undefined && { place }) },
    new Date(nowS * 1000).toISOString(),
  )
  const seen = evaluateWatch(state, deployed)
  const proposal = proposalOf(seen, reopened, deployed, flags)
  const written =
    flags.out === undefined || !proposal
      ? []
      : await writeProposal(reopened, proposal, {
          folder: flags.out,
          target: oneOf(flags.target, specTargets, '--target'),
          peakRps: peakOf(seen, reopened),
          headroom: deployed.headroom,
          slowness: slownessOf(seen),
        })
  const told = { seen, proposal, notes, written, reopened, deployed, flags, name }
  tell(told)
  return { experiment: reopened.record.id, seen, silent }
}

const introduction = (
  name: string,
  { trial, label, recommended }: Deployed,
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

function proposalOf(
  seen: WatchReport,
  reopened: Reopened,
  { trial, headroom }: Deployed,
  flags: WatchFlags,
): Proposal | undefined {
  if (!seen.findings.some(({ kind }) => needsReplanning(kind))) return undefined
  return replan({
    findings: seen.findings,
    options: optionsAt(reopened, slownessOf(seen)),
    deployed: { trial, ...(seen.replicas !== undefined && { replicas: seen.replicas }) },
    peakRps: peakOf(seen, reopened),
    headroom,
    minGain: parseShare(flags.minGain),
  })
}

const slownessOf = ({ findings }: WatchReport): number =>
  Math.max(1, findings.find((finding) => finding.kind === 'drift')?.slowness ?? 1)

/** Before a week was seen, what was planned for counts too. */
const peakOf = ({ peakRps, state }: WatchReport, { experiment }: Reopened): number =>
  Math.max(
    peakRps,
    !coversWeek(state.traffic) ? (getDemand(experiment.objective)?.demandRps ?? 0) : 0,
  )

interface Told {
  readonly seen: WatchReport
  readonly proposal?: Proposal
  readonly notes: readonly string[]
  readonly written: readonly string[]
  readonly reopened: Reopened
  readonly deployed: Deployed
  readonly flags: WatchFlags
  readonly name: string
}

function tell({ seen, proposal, notes, written, reopened, deployed, flags, name }: Told): void {
  const command = proposal?.kind === 'tune again' ? commandOf(proposal, reopened, flags) : ''
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

/** The command that measures what is not known. */
function commandOf(
  proposal: Extract<Proposal, { kind: 'tune again' }>,
  { record, trials }: Reopened,
  { db, out }: WatchFlags,
): string {
  if (!proposal.newModel)
    return `tune resume ${record.id} --max-trials ${trials.length + 10} --db ${db}`
  return out === undefined
    ? 'add --out FOLDER to write the experiment there, then run it on the new version'
    : `tune -f ${out}/experiment.yaml --db ${db}`
}

/** @throws UserError where nothing was ever seen, or nothing since the last look though windows are over */
function codeOf({ state, findings }: WatchReport, silent: boolean): number {
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
