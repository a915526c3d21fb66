/**
 * Importance and effects of the parameters, history, and predictions against measurements.
 * Collapsed by default, because it explains the search and not the recommendation.
 */
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { z90 } from '../../../../search/gp/normal.ts'
import { modelsCapacityOrLatency } from '../../../../search/objective.ts'
import { percent } from '../../../format.ts'
import {
  createEffectOption,
  createHistoryOption,
  createImportanceOption,
  createPredictionOption,
} from '../../charts/analysis-charts.ts'
import { listHistory } from '../../data/analysis.ts'
import type { Effects, FeasiblePoint } from '../../data/importance.ts'
import type { Answer } from '../answer.ts'
import { Chart, TrialChart } from '../chart.tsx'
import { Switch } from '../elements.tsx'
import { type ParameterEffects, requestEffects } from '../worker.ts'
import { findCentre, NeighbourhoodOfBest } from './neighbourhood.tsx'

/** Maximum number of parameters whose effect is drawn. */
const maxEffects = 6

export function ImportanceSection({ answer }: { answer: Answer }) {
  const [pair, choose] = useState<readonly string[]>([])
  const { result, isCurrent } = useEffects(answer, pair)
  return (
    <details class="more">
      <summary>
        <h2>Parameter importance and search history</h2>
      </summary>
      {result ? (
        <Importance effects={result.effects} answer={answer} />
      ) : (
        <p class="note">
          {isCurrent
            ? 'Too few trials have met the SLO to estimate importance.'
            : 'Computing parameter importance.'}
        </p>
      )}
      <div class="columns">
        <BestSoFar answer={answer} />
        <PredictedAgainstMeasured answer={answer} />
      </div>
      <NeighbourhoodOfBest
        answer={answer}
        neighbourhood={result?.neighbourhood}
        pair={pair}
        choose={choose}
      />
    </details>
  )
}

/**
 * Requests the effects from the worker whenever the feasible candidates, the centre or the pair of
 * parameters change. `result` is the latest one; it is out of date until `isCurrent`.
 */
function useEffects(
  answer: Answer,
  pair: readonly string[],
): { readonly result?: ParameterEffects; readonly isCurrent: boolean } {
  const [last, setLast] = useState<{ key: string; effects?: ParameterEffects }>()
  const requestedKey = useRef('')
  const { slo } = answer.whatIf
  const { parameters, seed } = answer.experiment
  const feasiblePoints = listFeasiblePoints(answer)
  const centre = findCentre(answer)
  const key = JSON.stringify([
    feasiblePoints.length,
    slo.limitMs,
    slo.percentile,
    feasiblePoints.at(-1)?.capacityRps,
    centre,
    pair,
  ])
  useLayoutEffect(() => {
    const { isLoading, isPrinting } = answer
    if (isLoading || key === last?.key || (key === requestedKey.current && !isPrinting)) return
    requestedKey.current = key
    const done = (effects?: ParameterEffects) =>
      requestedKey.current === key && setLast({ key, effects })
    requestEffects(
      { parameters, feasiblePoints, seed, centre, surfaceParameters: pair },
      isPrinting,
      done,
    )
  })
  return { result: last?.effects, isCurrent: key === last?.key }
}

const Importance = ({ effects, answer: { theme } }: { effects: Effects; answer: Answer }) => (
  <div class="columns">
    <div>
      <h3>Importance</h3>
      <Chart
        name="importance"
        altText={`Importance: ${effects.effects.map(({ parameter, importance: i }) => `${parameter} ${percent(i.median)}, ${percent(i.low)} to ${percent(i.high)}`).join('; ')}`}
        size="small"
        createOption={() => createImportanceOption(effects.effects, theme)}
      />
      <p class="note">{describeMethod(effects)}</p>
    </div>
    <div>
      <h3>Effect on the capacity</h3>
      <div class="effects">
        {effects.effects.slice(0, maxEffects).map((effect) => (
          <Chart
            key={effect.parameter}
            name={`effect-${effect.parameter}`}
            altText={`Effect of ${effect.parameter}: ${effect.values.map((v) => `${v.value}: ${v.median.toFixed(2)} times the mean`).join(', ')}`}
            size="small"
            createOption={() => createEffectOption(effect, theme)}
          />
        ))}
      </div>
    </div>
  </div>
)

function BestSoFar({ answer }: { answer: Answer }) {
  const { trials, byTrial, ranker, whatIf, theme } = answer
  const [xAxis, setXAxis] = useState<'trials' | 'money'>('trials')
  const { pricePerHour } = ranker.createCriteria(whatIf)
  const points = listHistory(trials, byTrial, (t) => pricePerHour(t.configuration))
  const last = points.findLast((p) => p.best !== undefined)
  const first = points.find((p) => p.best !== undefined && p.best === last?.best)
  return (
    <div>
      <header>
        <h3>Best so far</h3>
        <Switch
          legend="X axis"
          name="against"
          choices={[
            ['trials', 'trials'],
            ['money', 'money'],
          ]}
          value={xAxis}
          choose={setXAxis}
        />
      </header>
      <TrialChart
        answer={answer}
        name="history"
        altText={
          first
            ? `Best so far: found in trial ${first.trial} of ${trials.length}`
            : 'No trial has met the SLO yet'
        }
        size="small"
        createOption={() => createHistoryOption(points, xAxis, whatIf.objective, theme)}
      />
    </div>
  )
}

function PredictedAgainstMeasured({ answer }: { answer: Answer }) {
  const { trials, theme, experiment } = answer
  // Only predictions of a rate can be compared with measured rates.
  const predictsRates = modelsCapacityOrLatency(experiment.objective)
  const pairs = trials.flatMap(({ number, predicted, ...t }) =>
    predictsRates && predicted && t.state === 'complete' && t.measurement.capacityRps > 0
      ? [
          {
            trial: number,
            predicted: predicted.rate,
            low: predicted.low,
            high: predicted.high,
            measured: t.measurement.capacityRps,
          },
        ]
      : [],
  )
  if (pairs.length === 0) return null
  const inside = pairs.filter((p) => p.measured >= p.low && p.measured <= p.high).length
  return (
    <div>
      <h3>Predicted against measured</h3>
      <TrialChart
        answer={answer}
        name="predictions"
        altText={`${inside} of ${pairs.length} measurements lie within the predicted 90 % interval`}
        size="small"
        createOption={() => createPredictionOption(pairs, theme)}
      />
      <p class="note">
        Predictions of the search before each trial, with 90 % intervals. Points on the diagonal
        were predicted exactly.
      </p>
    </div>
  )
}

const describeMethod = ({ fitted, served }: Effects): string =>
  `Total-order Sobol index of the safe capacity, from a Gaussian process fitted to ${fitted === served ? `the ${served}` : `${fitted} of the ${served}`} configurations that met the SLO: medians and 90 % intervals over posterior samples. Interactions count for each parameter in them, so shares may sum to more than 100 %.`

/** Lists the feasible points by trial, so that the model does not depend on the ranking. */
function listFeasiblePoints({ candidates }: Answer): FeasiblePoint[] {
  return candidates
    .filter((c) => c.capacityRps > 0 && c.bound !== 'upper')
    .sort((a, b) => a.trial - b.trial)
    .map(({ trial, configuration, capacityRps, capacityCi90Rps: [low, high] }) => ({
      trial,
      configuration,
      capacityRps,
      ...(low > 0 && Number.isFinite(high) && high > low
        ? { logSd: Math.log(high / low) / (2 * z90) }
        : {}),
    }))
}
