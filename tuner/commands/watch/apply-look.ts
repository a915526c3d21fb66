/**
 * Where a look meets `--apply`: what was cut off is finished first, what is proposed is applied,
 * and what became of it is kept and told.
 */
import type { Option, Proposal } from '../../../reports/watch/replan.ts'
import { nothingSeen } from '../../../reports/watch/watching.ts'
import { keepWatch } from '../../../trials/store/index.ts'
import { exitCodes, UserError } from '../../exit-codes.ts'
import type { Reopened } from '../reopened.ts'
import { type ApplyOutcome, applyProposal, goOn } from './apply.ts'
import { type Change, passedOverDays, readRecord } from './apply-record.ts'
import { applyContext, type Looked } from './applying.ts'
import { keptOf } from './kept-watch.ts'
import type { ProposedObjects } from './proposal-files.ts'
import type { WatchFlags } from './watch-flags.ts'
import { deployedOf } from './watched.ts'

interface Watch {
  readonly reopened: Reopened
  readonly name: string
  readonly windowS: number
  readonly flags: WatchFlags
  /** Seconds since 1970. */
  readonly nowS: () => number
}

/** A change that is proposed, by canary; told, and kept where it holds. */
export async function applyProposed(
  looked: Looked,
  { to }: Extract<Proposal, { kind: 'change' }>,
  { port, ...objects }: ProposedObjects,
  capacityRps: number,
  signal: AbortSignal,
): Promise<ApplyOutcome> {
  const { reopened, deployed } = looked
  const asked = { experiment: reopened.record.id, from: deployed.trial, to, ...objects }
  const outcome = await applyProposal(applyContext(looked, capacityRps, port), asked, signal)
  await told(outcome, looked, outcome.kind === 'kept' ? to.trial : undefined)
  return outcome
}

/** What a process that was killed had under way is finished first; without --apply it is told. */
export async function finishLeft(watch: Watch, signal: AbortSignal): Promise<void> {
  const { flags, name, nowS } = watch
  const { change } = await readRecord(flags.db, name, nowS())
  if (change === undefined || change.phase === 'kept') return
  if (flags.apply && !flags.dryRun) {
    const outcome = await leftGoesOn(watch, change, false, signal)
    return told(outcome, watch, outcome.kind === 'kept' ? change.to : undefined)
  }
  const { phase, deployment, namespace, to } = change
  process.stderr.write(
    `a change of Deployment ${deployment} in namespace ${namespace} to trial ${to} was cut off ${phase === 'canary' ? 'while its canary was judged' : 'before it was judged there'}: --apply goes on, --step-back takes it back\n`,
  )
}

/**
 * `--step-back`: what the last change made is taken back, and the configuration before it watched
 * again.
 */
export async function stepBack(watch: Watch, signal: AbortSignal): Promise<number> {
  const { flags, name, nowS } = watch
  const { change } = await readRecord(flags.db, name, nowS())
  if (change === undefined)
    throw new UserError(
      `tune watch --apply has nothing to take back under the name ${name}`,
      'give the --name under which it was applied',
      exitCodes.usage,
    )
  await told(
    await leftGoesOn(watch, change, true, signal),
    watch,
    change.phase === 'canary' ? undefined : change.from,
  )
  return exitCodes.ok
}

async function leftGoesOn(
  { reopened, name, windowS, flags, nowS }: Watch,
  change: Change,
  back: boolean,
  signal: AbortSignal,
): Promise<ApplyOutcome> {
  const kept = await keptOf(flags.db, name, windowS)
  const deployed = deployedOf(reopened, { ...flags, trial: String(change.to) }, undefined)
  const looked = {
    flags,
    name,
    windowS,
    reopened,
    deployed,
    nowS,
    untilS: kept?.state.untilS,
    place: kept?.place,
  }
  return goOn(applyContext(looked, deployed.server.capacityRps, change.port), change, back, signal)
}

/** @param watched the configuration that is watched from now on, begun anew */
async function told(
  outcome: ApplyOutcome,
  { flags, name, windowS }: Pick<Watch, 'flags' | 'name' | 'windowS'>,
  watched: number | undefined,
): Promise<void> {
  if (watched !== undefined)
    await keepWatch(
      flags.db,
      name,
      { state: nothingSeen(watched), windowS },
      new Date().toISOString(),
    )
  const line = { schema: 'tune.watch-apply/v1', name, at: new Date().toISOString(), ...outcome }
  process.stdout.write(
    flags.json ? `${JSON.stringify(line)}\n` : `  -> ${outcome.kind}: ${outcome.text}\n`,
  )
}

/**
 * With --apply all but those that it stepped back from of late. @param deployed stays, whatever
 * became of it
 */
export async function notSteppedBack(
  all: readonly Option[],
  deployed: number,
  { flags, name, nowS }: Pick<Watch, 'flags' | 'name' | 'nowS'>,
): Promise<readonly Option[]> {
  if (!flags.apply) return all
  const { steppedBack } = await readRecord(flags.db, name, nowS())
  for (const { trial, at, why } of steppedBack)
    process.stderr.write(
      `trial ${trial} is passed over for ${passedOverDays} days: stepped back from on ${at.slice(0, 16).replace('T', ' ')} UTC, ${why}\n`,
    )
  return all.filter(
    ({ trial }) => trial === deployed || !steppedBack.some((one) => one.trial === trial),
  )
}
