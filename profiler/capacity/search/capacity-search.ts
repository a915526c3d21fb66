/**
 * The search for the capacity as a state machine. Its usual way is the left column:
 *
 *     warm-up
 *     unloaded latency ──► bisection          answers are streamed
 *     saturation ────────► throttled          the server waits for its CPU quota
 *     sweep
 *     windows ◄──────────► probe              a window at a higher rate checks a pruning decision
 *     completion                              until a window met the SLO, or a slowdown is confirmed
 *     conclusion ────────► further warm-up    still speeding up; then `saturation` again
 *     recheck                                 unloaded latency again
 *     end
 *
 * Most states may also go to `recheck` or `end` directly: the server died, host interference
 * disturbed every window, or the trial was pruned. `saturation` is repeated once where host
 * interference made it too low. Only an open window that met the SLO is a lower bound.
 */

import type { LoadPoint } from '../../model/load-point.ts'
import type { SearchResult } from '../capacity-bounds.ts'
import { isAsFastAsLoops } from '../closed-loop-share.ts'
import type { Effort } from '../effort.ts'
import { allWindowsDisturbedDetail } from '../host-interference.ts'
import type { RequestWarmUp } from '../warm-up.ts'
import { concludeDisturbed, concludePass, concludeSaturationTooLow } from './conclusion.ts'
import { type LoopFacts, measureSaturation } from './measure-saturation.ts'
import { chooseRate } from './next-rate.ts'
import { decidePruning, type Probe } from './pruning.ts'
import { isThrottled, searchThrottledCapacity } from './quota-search.ts'
import { bisectRate } from './rate-bisection.ts'
import type { ObservedServer, PassHistory, SearchContext } from './search-context.ts'
import { SearchPass } from './search-pass.ts'
import { isStreaming, measureUnloaded, recheckUnloaded, warmServer } from './unloaded-server.ts'
import type { WindowEnd } from './window-player.ts'

/** A state of the search, with its inputs. */
type SearchState =
  | { readonly at: 'warm-up' }
  | {
      readonly at: 'unloaded latency'
      readonly warmUp: RequestWarmUp
      /** Last closed loop of the warm-up, if its requests were refused. */
      readonly refusedPoint?: LoadPoint
    }
  | { readonly at: 'bisection'; readonly server: ObservedServer }
  | { readonly at: 'saturation'; readonly server: ObservedServer; readonly history?: PassHistory }
  | { readonly at: 'throttled'; readonly server: ObservedServer; readonly loops: LoopFacts }
  | { readonly at: 'sweep'; readonly pass: SearchPass }
  | {
      readonly at: 'windows'
      readonly pass: SearchPass
      /** Windows at one rate so far, and what the probe showed. */
      readonly windowsPlayed: number
      readonly probe?: Probe
    }
  | {
      readonly at: 'probe'
      readonly pass: SearchPass
      readonly windowsPlayed: number
      readonly rateRps: number
      /** Upper end of the interval, which the probe tests. */
      readonly highRps: number
    }
  | { readonly at: 'completion'; readonly pass: SearchPass; readonly tries: number }
  | { readonly at: 'conclusion'; readonly pass: SearchPass }
  | { readonly at: 'further warm-up'; readonly pass: SearchPass; readonly saturationRps: number }
  | { readonly at: 'recheck'; readonly server: ObservedServer; readonly result: SearchResult }
  | { readonly at: 'end'; readonly result: SearchResult }

/**
 * Range of the sweep that first calibrates the queue model, as shares of the saturation. It shows
 * idle and busy queues, and ends slightly overloaded. Assumed.
 */
const sweepStartShare = 0.4
const sweepEndShare = 1.15
/**
 * Share of the budget before which a narrow interval does not end the search. The interval does not
 * include rare outages before one has occurred. Assumed.
 */
const minBudgetShare = 0.7
/**
 * Shortest window at the end of the budget, as a share of the usual length: the queue of a shorter
 * one has hardly built up. Assumed.
 */
const minWindowShare = 0.5
/** Windows that the search adds at its end until one meets the SLO: six halve the rate. Assumed. */
const maxLowerTries = 6
/**
 * Windows that the search adds at its end to check a possible slowdown, and a further one. Assumed.
 */
const maxSlowdownChecks = 2
/**
 * Further warm-ups of a server that still speeds up at the end of a pass. Servers that warm up by
 * request count need two (docs/research/capacity.md, policies beside the queue).
 */
const maxFurtherWarmUps = 2
/** Load of a further warm-up, as a share of the saturation: its queue stays bounded. Assumed. */
const warmUpLoadShare = 0.8
/**
 * Shortest and longest further warm-up, seconds: at most about as long as the first one may take
 * (16 s). Assumed.
 */
const minWarmUpS = 2
const maxWarmUpS = 15

/** Searches for the capacity, from a state on. */
export async function searchCapacity(
  context: SearchContext,
  from: SearchState = { at: 'warm-up' },
): Promise<SearchResult> {
  let state = from
  while (state.at !== 'end') state = await advance(state, context)
  return state.result
}

/** Does the work of a state, and returns the next one. */
async function advance(
  state: Exclude<SearchState, { at: 'end' }>,
  context: SearchContext,
): Promise<SearchState> {
  const { session, effort, seed } = context
  switch (state.at) {
    case 'warm-up': {
      const warming = await warmServer(context)
      return 'outcome' in warming
        ? { at: 'end', result: warming }
        : { at: 'unloaded latency', ...warming }
    }
    case 'unloaded latency': {
      const server = await measureUnloaded(context, state.warmUp, state.refusedPoint)
      if ('outcome' in server) return { at: 'end', result: server }
      return isStreaming(session, server.unloaded.point)
        ? { at: 'bisection', server }
        : { at: 'saturation', server }
    }
    case 'bisection': {
      const { server } = state
      return finish(server, await bisectRate(context, server.unloaded.point))
    }
    case 'saturation': {
      const { server } = state
      const history = state.history ?? {
        furtherWarmUps: 0,
        hasRepeatedSaturation: false,
        earlierPoints: session.points.length,
      }
      const loops = await measureSaturation(context, server)
      if ('outcome' in loops) return finish(server, loops)
      if (isThrottled(loops)) return { at: 'throttled', server, loops }
      const pass = new SearchPass(context, server, loops, history)
      session.startBudget()
      return { at: 'sweep', pass }
    }
    case 'throttled': {
      const { server, loops } = state
      return finish(server, await searchThrottledCapacity(context, server.unloaded.point, loops))
    }
    case 'sweep': {
      const { pass } = state
      const { saturationRps } = pass.loops
      const [fromRps, toRps] = [sweepStartShare * saturationRps, sweepEndShare * saturationRps]
      const { windowS, searchS } = planWindows(effort)
      const windowEnd = await pass.player.play(
        (fromRps + toRps) / 2,
        Math.min(windowS, searchS / 2),
        {
          kind: 'sweep',
          fromRps,
          toRps,
        },
      )
      return windowEnd ? finishEarly(pass, windowEnd) : { at: 'windows', pass, windowsPlayed: 0 }
    }
    case 'windows': {
      const { pass, windowsPlayed, probe } = state
      pass.updateEstimate()
      if (pass.isSaturationTooLow && !pass.history.hasRepeatedSaturation)
        return repeat(pass, concludeSaturationTooLow(pass).result, 'saturation too low')
      const pruning = decidePruning(pass, probe)
      if (pruning !== undefined && 'result' in pruning) return finish(pass.server, pruning.result)
      if (pruning !== undefined) return { at: 'probe', pass, windowsPlayed, ...pruning.probe }
      const { windowS } = planWindows(effort)
      const isTimeUp = session.spentS + minWindowShare * windowS > effort.budgetS
      if ((isTimeUp && windowsPlayed > 0) || isPrecise(pass))
        return { at: 'completion', pass, tries: 0 }
      const restS = effort.budgetS - session.spentS
      const windowEnd = await pass.player.play(
        chooseRate(pass),
        Math.min(windowS, Math.max(minWindowShare * windowS, restS)),
      )
      return windowEnd
        ? finishEarly(pass, windowEnd)
        : { at: 'windows', pass, windowsPlayed: windowsPlayed + 1, probe }
    }
    case 'probe': {
      const { pass, windowsPlayed, rateRps, highRps } = state
      const windowEnd = await pass.player.play(rateRps, planWindows(effort).windowS)
      if (windowEnd) return finishEarly(pass, windowEnd)
      const probe = pass.evidence.rates.metRps > highRps ? 'met' : 'violated'
      return { at: 'windows', pass, windowsPlayed, probe }
    }
    case 'completion': {
      const { pass, tries } = state
      const { rates, speed } = pass.evidence
      // Only a window that met the SLO is a lower bound, so lower rates follow until one does.
      const needsMetRate = rates.metRps === 0 && tries < maxLowerTries
      const needsCheck = speed.maySlowDown && tries < maxSlowdownChecks
      if (!needsMetRate && !needsCheck) return { at: 'conclusion', pass }
      const windowEnd = await pass.player.play(chooseRate(pass), effort.windowS)
      if (windowEnd) return finishEarly(pass, windowEnd)
      if (speed.relativeSpeed < 1 || speed.maySlowDown) pass.updateEstimate()
      return { at: 'completion', pass, tries: tries + 1 }
    }
    case 'conclusion': {
      const { pass } = state
      const { result, repeat: reason } = await concludePass(pass)
      return reason === undefined ? finish(pass.server, result) : repeat(pass, result, reason)
    }
    case 'further warm-up': {
      const { pass, saturationRps } = state
      const { server, history } = pass
      // Half as long as the server was under load so far.
      const warmUpS = Math.min(maxWarmUpS, Math.max(minWarmUpS, session.totalS / 2))
      await session.playOpen(warmUpLoadShare * saturationRps, warmUpS, seed, 'warm-up')
      await server.warmUp?.recheckGain()
      return startPass(pass, { ...history, furtherWarmUps: history.furtherWarmUps + 1 })
    }
    case 'recheck': {
      await recheckUnloaded(context, state.server)
      return { at: 'end', result: state.result }
    }
  }
}

/** Rechecks the unloaded latency, unless the result is no capacity or closed loops are refused. */
function finish(server: ObservedServer, result: SearchResult): SearchState {
  const hasCapacity = !['server-died', 'pruned', 'host-interference'].includes(result.outcome)
  return hasCapacity && server.refusesBeyondRps === undefined
    ? { at: 'recheck', server, result }
    : { at: 'end', result }
}

/**
 * Concludes a pass whose last window ended it. Where most windows were invalid and none violated
 * the SLO, the capacity is not bounded above: the model knows the server only as it was disturbed.
 */
function finishEarly(pass: SearchPass, end: WindowEnd): SearchState {
  if (end.ended === 'server died')
    return finish(pass.server, pass.buildResult('server-died', end.cause))
  const { screen, rates } = pass.evidence
  const isBounded = Number.isFinite(rates.violatedRps) || !screen.isMostlyInvalid
  return pass.posterior !== undefined && rates.metRps > 0 && isBounded
    ? { at: 'conclusion', pass }
    : finish(pass.server, concludeDisturbed(pass, allWindowsDisturbedDetail))
}

/** Repeats a pass as far as repetitions are left, else ends with its result. */
function repeat(
  pass: SearchPass,
  result: SearchResult,
  reason: 'server is cold' | 'saturation too low',
): SearchState {
  const { history, server } = pass
  if (reason === 'server is cold' && history.furtherWarmUps < maxFurtherWarmUps)
    return { at: 'further warm-up', pass, saturationRps: result.saturationRps }
  if (reason === 'saturation too low' && !history.hasRepeatedSaturation)
    return startPass(pass, { ...history, hasRepeatedSaturation: true })
  return finish(server, result)
}

/** Starts a new pass without the observations of this one: the server or the host has changed. */
function startPass({ context, server }: SearchPass, history: PassHistory): SearchState {
  context.session.forget(history.earlierPoints)
  context.session.startBudget()
  return { at: 'saturation', server, history }
}

/**
 * Plans the length of a window and of the whole search, seconds. The shortest budget has room for
 * the sweep and one window.
 */
function planWindows({ budgetS, windowS, windows }: Effort) {
  const searchS = Math.max(budgetS, 2 * windowS)
  return { searchS, windowS: Math.max(windowS, searchS / windows) }
}

/**
 * Whether the interval is narrow enough. With outages, or while open windows are slower than closed
 * loops, further windows must show how often.
 */
function isPrecise(pass: SearchPass): boolean {
  const { posterior, evidence, loops } = pass
  const { effort, session } = pass.context
  const minSearchS = pass.matchesExpectation ? 0 : minBudgetShare * effort.budgetS
  return (
    posterior !== undefined &&
    evidence.windows.length > 1 &&
    !posterior.hasOutages &&
    isAsFastAsLoops(posterior, loops.saturationRps) &&
    session.spentS >= minSearchS &&
    pass.relativeHalfWidth < effort.precision
  )
}
