import { type Datum, gpDataOf, priorsOf } from './datum.ts'
import type { Design } from './design.ts'
import { fitGp } from './gp-fit.ts'

const ROUNDS = 4

/**
 * The readings that say something: all that are exact, and those bounds that the others would not lead one to expect. A bound that the model
 * keeps anyway tells nothing new and is left out; one that it would break is a reading at the bound (the active set of the most probable function
 * under inequalities).
 */
export function activeReadings({ groups, rows, shape }: Design, data: readonly Datum[]): readonly Datum[] {
  if (data.every((d) => d.bound === undefined)) return data
  let active = data
  for (let round = 0; round < ROUNDS; round++) {
    const gp = fitGp(shape, gpDataOf(rows(active.map((d) => d.at)), active), { priors: priorsOf(groups) })
    const others = gp.leaveOneOut()
    const elsewhere = gp.predict(rows(data.map((d) => d.at))).mean
    const next = data.filter((d, i) => {
      if (d.bound === undefined) return true
      const at = active.indexOf(d)
      const expected = at < 0 ? elsewhere[i]! : others[at]!
      return d.bound === 'most' ? expected > d.target : expected < d.target
    })
    if (next.length === 0 || (next.length === active.length && next.every((d, i) => d === active[i]))) break
    active = next
  }
  return active
}
