/** Experiments side by side, all under the what-if settings of the page. */
import { useLayoutEffect, useReducer, useRef } from 'preact/hooks'
import type { FinishedTrial } from '../../../../trials/types.ts'
import { money, rate } from '../../../format.ts'
import { listCandidates } from '../../../recommendation/candidates.ts'
import { describeStatus } from '../../../recommendation/describe-status.ts'
import { createComparisonOption, describeComparison } from '../../charts/compare-chart.ts'
import { formatCostUnit, listCostMeasures } from '../../charts/decision-chart.ts'
import { maxCompared } from '../../data/address.ts'
import { Ranker } from '../../data/ranking.ts'
import type { Answer } from '../answer.ts'
import { Chart } from '../chart.tsx'
import { Tag } from '../elements.tsx'
import type { ChartItem } from '../plot.ts'
import { useApp } from '../section.tsx'
import { follow } from '../source.ts'
import { ExperimentsCompared, type Side } from './compare-tables.tsx'

export function Compare({ answer }: { answer: Answer }) {
  const app = useApp()
  const { experiment, experiments, compared, whatIf } = answer
  const others = useOthers(compared)
  const offered = experiments.filter((e) => e.id !== experiment.id)
  if (offered.length === 0) return null
  const selectable = offered.filter(
    ({ id, annotation }) => !compared.includes(id) && annotation?.archivedAt === undefined,
  )
  const sides: Side[] = [answer]
  for (const { ranker, trials } of others)
    if (ranker)
      sides.push({
        experiment: ranker.experiment,
        recommendation: ranker.recommend(trials, whatIf),
      })
  return (
    <>
      <header>
        <h2>Compare with other experiments</h2>
        <span>
          <span class="tags">
            {compared.map((id) => (
              <Tag
                key={id}
                text={id}
                label={`Remove ${id} from the comparison`}
                remove={() => app.compare(compared.filter((one) => one !== id))}
              />
            ))}
          </span>
          {selectable.length > 0 && compared.length < maxCompared && (
            <select
              id="compare-with"
              aria-label="Compare with"
              value=""
              onChange={({ currentTarget }) => app.compare([...compared, currentTarget.value])}
            >
              <option value="">{compared.length === 0 ? 'none' : 'add another'}</option>
              {selectable.map((e) => (
                <option key={e.id} value={e.id}>
                  {`${e.id} (${e.trials} trials, ${e.provenance})`}
                </option>
              ))}
            </select>
          )}
        </span>
      </header>
      {sides.length > 1 && <ComparisonChart sides={sides} answer={answer} />}
      {others.map(({ id, problem }) => problem && <p class="problem">{`${id}: ${problem}`}</p>)}
      {others.some(({ ranker, problem }) => !ranker && !problem) && <p>loading</p>}
      {sides.length > 1 && <ExperimentsCompared sides={sides} />}
    </>
  )
}

function ComparisonChart({ sides, answer: { theme } }: { sides: readonly Side[]; answer: Answer }) {
  const compared = sides.map(({ experiment: { id }, recommendation }) => ({ id, recommendation }))
  const costMeasure = listCostMeasures(compared[0]!.recommendation)[0]!
  return (
    <Chart
      name="experiments-compared"
      altText={`${describeComparison(compared, costMeasure)} (${formatCostUnit(costMeasure)})`}
      createOption={() => createComparisonOption(compared, costMeasure, theme)}
      renderTooltip={(item) => createCard(item, sides)}
    />
  )
}

function createCard({ value: [, , place, trial] }: ChartItem, sides: readonly Side[]) {
  const side = place === undefined ? undefined : sides[place]
  const candidate = side && listCandidates(side.recommendation).find((c) => c.trial === trial)
  if (!side || !candidate) return undefined
  const { label, status, capacityRps, pricePerHour } = candidate
  return (
    <div>
      <strong>{`${side.experiment.id}, trial ${trial}`}</strong>
      <div>{label}</div>
      <div>
        {`${describeStatus(status, side.recommendation.provenance).name}: ${rate(capacityRps)}, ${money(pricePerHour)} / h`}
      </div>
    </div>
  )
}

interface ComparedExperiment {
  readonly id: string
  ranker?: Ranker
  readonly trials: FinishedTrial[]
  problem?: string
  stop: () => void
}

/** The experiments of these ids, followed while they are compared. */
function useOthers(ids: readonly string[]): readonly ComparedExperiment[] {
  const followed = useRef(new Map<string, ComparedExperiment>()).current
  const [, changed] = useReducer((count: number) => count + 1, 0)
  useLayoutEffect(() => {
    for (const [id, other] of followed)
      if (!ids.includes(id)) {
        other.stop()
        followed.delete(id)
      }
    for (const id of ids)
      if (!followed.has(id))
        followed.set(
          id,
          followOther(id, () => changed(undefined)),
        )
    changed(undefined)
  }, [ids])
  return ids.flatMap((id) => followed.get(id) ?? [])
}

function followOther(id: string, changed: () => void): ComparedExperiment {
  const other: ComparedExperiment = { id, trials: [], stop: () => {} }
  other.stop = follow(id, {
    experiment: (e) => {
      other.ranker = new Ranker(e)
      changed()
    },
    trials: (trials) => {
      other.trials.push(...trials)
      changed()
    },
    ready: changed,
    problem: (message) => {
      other.problem = message
      changed()
    },
    connected: () => {},
  })
  return other
}
