/**
 * From a look at production to `--apply`: what is asked of a canary, and whether production misses
 * its SLO meanwhile.
 */
import { leastProbes } from '../../../reports/watch/canary.ts'
import { usageError } from '../../exit-codes.ts'
import { parseDurationMs, parseRateRps, parseShare } from '../../experiment/units.ts'
import type { Reopened } from '../reopened.ts'
import type { ApplyContext, ApplySettings } from './apply.ts'
import { sourceOf } from './chosen-source.ts'
import { missedSince } from './production-missed.ts'
import type { WatchFlags } from './watch-flags.ts'
import type { Deployed } from './watched.ts'

/** Probes are a small part of what a replica can, and never more than this a second. */
const [probedShare, mostProbeRps] = [0.05, 10]
/** A verdict is waited for so many times as long as it takes at least. */
const mostTimes = 3

/** Flags that mean nothing without another. @throws UserError */
export function checkApplyFlags({ apply, dryRun, stepBack, target, patch }: WatchFlags): void {
  if (dryRun && !apply) throw usageError('--dry-run shows what --apply would do', 'give both')
  if (apply && stepBack) throw usageError('--apply and --step-back', 'give one of them')
  if (apply && patch === undefined && target !== 'kubernetes')
    throw usageError(
      `--apply changes Deployments, and --target is ${target}`,
      'leave out --target, or give --patch the manifest of a Deployment',
    )
}

/** A look at production, and where it stands. */
export interface Looked {
  readonly flags: WatchFlags
  readonly name: string
  readonly windowS: number
  readonly reopened: Reopened
  readonly deployed: Deployed
  readonly untilS: number | undefined
  readonly place: unknown
  /** Seconds since 1970. */
  readonly nowS: () => number
}

/** @param capacityRps of a replica that is tried @throws UserError for probes too few to be sure of anything */
export function applyContext(looked: Looked, capacityRps: number, port: number): ApplyContext {
  const { flags, name, reopened, deployed } = looked
  return {
    settings: settingsOf(flags, deployed, capacityRps),
    db: flags.db,
    watch: name,
    experiment: reopened.experiment,
    slo: deployed.slo,
    detourMs: deployed.detourMs,
    port,
    productionMissed: besideIt(looked),
    nowS: looked.nowS,
    say: (line) => process.stderr.write(`${line}\n`),
  }
}

function settingsOf(flags: WatchFlags, { slo }: Deployed, capacityRps: number): ApplySettings {
  const leastS = parseDurationMs(flags.canaryTime) / 1000
  if (leastS < 1)
    throw usageError(`--canary-time ${flags.canaryTime}: a second or longer`, 'the default is 10m')
  const risk = parseShare(flags.risk)
  if (!(risk > 0 && risk < 0.5))
    throw usageError(`--risk ${flags.risk}: above 0 and below 50%`, 'the default is 5%')
  const probeRps =
    flags.probeRate === undefined
      ? Math.min(mostProbeRps, Number((probedShare * capacityRps).toPrecision(2)))
      : parseRateRps(flags.probeRate)
  const needed = leastProbes(slo, risk)
  if (probeRps * mostTimes * leastS < needed)
    throw usageError(
      `${probeRps} probes/s for ${mostTimes * leastS} s are too few to be sure: of ${needed} none may be over the limit, at --risk ${flags.risk}`,
      `give --canary-time ${Math.ceil(needed / probeRps / 60)}m, or a higher --probe-rate`,
    )
  return {
    question: { risk, leastS, mostS: mostTimes * leastS },
    probeRps,
    takeOver: flags.takeOver,
    dryRun: flags.dryRun === true,
    ...(flags.namespace !== undefined && { namespace: flags.namespace }),
  }
}

/**
 * With Prometheus the pods that are judged are told apart by their label `pod`, as its usual scrape
 * configurations give it.
 */
function besideIt({
  flags,
  windowS,
  reopened,
  deployed,
  untilS,
  place,
  nowS,
}: Looked): ApplyContext['productionMissed'] {
  const sourceWith = (changed: Partial<WatchFlags>) =>
    sourceOf({ ...flags, ...changed }, windowS, reopened, deployed)
  return missedSince({
    ...{ windowS, watched: deployed, untilS, place, nowS },
    whole: sourceWith({}),
    ownOf: (pods, sinceS) => {
      if (flags.prometheus === undefined) return undefined
      const selector = [flags.selector, `pod=~"${pods}-.+"`].filter((one) => one !== '').join(',')
      return sourceWith({ selector, since: `${Math.ceil(nowS() - sinceS + windowS)}s` })
    },
  })
}
