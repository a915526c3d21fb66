/**
 * Whether batches that closed loops and open windows showed are the same server's, put together as
 * is said.
 */
import { median } from 'simple-statistics'
import { theilSenSlope } from '../../../statistics/theil-sen.ts'
import type { Steps } from '../../service-log/service-log.ts'

/**
 * Share by which batches of a closed loop may take longer or shorter than a line through those of
 * open load, beyond chance, to be the same server's.
 */
const same = 0.05
const certain = 3
/**
 * Times as far as those of open load that its batches may be from one another by that line: halves
 * of one that are said to be two are far apart.
 */
const unevenly = 3
/**
 * Batches in a row that are taken together to see whether the machine was faster at one time than
 * at another.
 */
const inARow = 10

/**
 * Whether batches of a closed loop were served as those of open load were, but for chance and for
 * how much faster the machine was at one time than at another.
 */
export function batchesAlike(known: Steps, other: Steps): boolean {
  if (other.tookMs.length === 0) return true
  const slope = Math.max(0, theilSenSlope(pairsOf(known)))
  const baseMs = Math.max(
    1e-3,
    median(known.tookMs.map((ms, i) => ms - slope * known.departed[i]!)),
  )
  const logs = (steps: Steps) =>
    steps.tookMs.map((ms, i) =>
      Math.log(Math.max(1e-3, ms) / (baseMs + slope * steps.departed[i]!)),
    )
  const [of, those] = [logs(known), logs(other)]
  const offBy = median(those)
  const spread = spreadOf(of)
  if (spreadOf(those.map((log) => log - offBy)) > unevenly * Math.max(same, spread)) return false
  const rows = Array.from({ length: Math.floor(of.length / inARow) }, (_, row) =>
    median(of.slice(row * inARow, (row + 1) * inARow)),
  )
  const ofRows = Math.max(spread / Math.sqrt(inARow), rows.length > 1 ? spreadOf(rows) : 0)
  return (
    Math.abs(offBy) <
    Math.max(same, certain * ofRows * Math.sqrt(inARow / of.length + inARow / those.length))
  )
}

/** A standard deviation that a few far ones do not move. */
const spreadOf = (values: readonly number[]): number => 1.5 * median(values.map(Math.abs))

const mostPaired = 150
const pairsOf = ({ tookMs, departed }: Steps) =>
  tookMs
    .map((y, i) => ({ x: departed[i]!, y }))
    .filter((_, i) => i % Math.ceil(tookMs.length / mostPaired) === 0)
