/** Stalls in closed loops: they tell how often a server stalls, whatever they tell of its capacity. */
import { sum } from 'simple-statistics'
import { changeOfSteps } from './speed.ts'
import { type SeparatedStalls, type Stall, separateStalls } from './stalls.ts'
import { joinSteps, type Steps } from './steps.ts'

/** Probability of counts further apart by chance, below which two rates of stalls differ. */
const chance = 0.01

/**
 * What closed loops show of stalls beside the open windows: stalls, and steps without any. Those since which the server's speed changed no more; nothing where they
 * stall otherwise than the windows do, beyond chance, or where no window stalled: a loop of a cold server, beside a generator that is busy with it, pauses for
 * other reasons too. The first is left out: it meets a cold server.
 * @param loops in order of time
 */
export function stallsBeside(open: SeparatedStalls, loops: readonly Steps[]): SeparatedStalls {
  const none = { usual: [], stalls: [], mixed: false }
  if (open.stalls.every((each) => each.length === 0)) return none
  let steady = loops.slice(1)
  for (let half = steady.length >> 1; half > 0; half = steady.length >> 1) {
    if (changeOfSteps(joinSteps(steady.slice(0, half)), joinSteps(steady.slice(half))) === 1) break
    steady = steady.slice(half)
  }
  const separated = separateStalls(steady)
  const beside = { ...separated, stalls: joined(separated.usual, separated.stalls) }
  return !beside.mixed && asOften(open, beside) ? beside : none
}

/** Stalls that went on from the last step of one loop to the first of the next are one. */
function joined(runs: readonly Steps[], stalls: SeparatedStalls['stalls']): Stall[][] {
  const all = stalls.map((of) => [...of])
  for (let r = all.length - 1; r > 0; r--) {
    const [before, after] = [all[r - 1]!.at(-1), all[r]![0]]
    if (before === undefined || after === undefined) continue
    const endedMs = before.atMs + sum([...before.excessesMs, ...before.usualMs])
    if (endedMs < runs[r - 1]!.endedMs.at(-1)! - near || after.atMs > runs[r]!.endedMs[0]! - runs[r]!.tookMs[0]! + near) continue
    all[r]!.shift()
    all[r - 1]!.splice(-1, 1, {
      atMs: before.atMs,
      excessesMs: [...before.excessesMs, ...after.excessesMs],
      usualMs: [...before.usualMs, ...after.usualMs],
    })
  }
  return all
}
const near = 1e-3

/** Whether stalls come as often in both, by the step or by the time. */
function asOften(a: SeparatedStalls, b: SeparatedStalls): boolean {
  const count = ({ stalls }: SeparatedStalls) => sum(stalls.map((each) => each.length))
  const steps = ({ usual }: SeparatedStalls) => sum(usual.map(({ tookMs }) => tookMs.length))
  const ms = ({ usual }: SeparatedStalls) => sum(usual.map(({ tookMs }) => sum(tookMs)))
  const all = count(a) + count(b)
  return [steps, ms].some((exposure) => {
    const share = exposure(a) / Math.max(Number.MIN_VALUE, exposure(a) + exposure(b))
    return Math.min(atMost(count(a), all, share), atMost(count(b), all, 1 - share)) > chance / 2
  })
}

/** Probability of so many or fewer of `n`, each with this probability (binomial). */
export function atMost(count: number, n: number, probability: number): number {
  let term = (1 - probability) ** n
  let total = term
  for (let i = 1; i <= count; i++) {
    term *= (((n - i + 1) / i) * probability) / (1 - probability)
    total += term
  }
  return total
}
