/**
 * Importance and effect of the parameters, history, and predictions against measurements; folded,
 * for those who look into the search.
 */
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { z90 } from '../../../../search/gp/normal.ts'
import { modelsCapacityOrLatency } from '../../../../search/objective.ts'
import { percent } from '../../../format.ts'
import {
  createEffectOption,
  createHistoryOption,
  createImportanceOption,
  createPredictedOption,
} from '../../charts/matters-chart.ts'
import { listHistory } from '../../data/analysis.ts'
import type { Effects, ServedPoint } from '../../data/importance.ts'
import type { Answer } from '../answer.ts'
import { Chart, TrialChart } from '../chart.tsx'
import { Switch } from '../elements.tsx'
import { askForEffects, type ParameterEffects } from '../worker.ts'
import { AroundTheBest, findCentre } from './around.tsx'

/** Parameters whose effect gets a chart of its own. */
const maxEffects = 6

export function Matters({ answer }: { answer: Answer }) {
  const [pair, choose] = useState<readonly string[]>([])
  const { known, isAnswered } = useEffects(answer, pair)
  return (
    <details class="more">
      <summary>
        <h2>Parameter importance and search history</h2>
      </summary>
      {known ? (
        <Importance effects={known.effects} answer={answer} />
      ) : (
        <p class="note">
          {isAnswered
            ? 'Too few trials have met the SLO to estimate importance.'
            : 'Computing parameter importance.'}
        </p>
      )}
      <div class="columns">
        <BestSoFar answer={answer} />
        <PredictedAgainstMeasured answer={answer} />
      </div>
      <AroundTheBest answer={answer} around={known?.around} pair={pair} choose={choose} />
    </details>
  )
}

/**
 * Asks the worker for the effects whenever what served has changed. `known` is its last answer,
 * meanwhile of an earlier question.
 */
function useEffects(
  answer: Answer,
  pair: readonly string[],
): { readonly known?: ParameterEffects; readonly isAnswered: boolean } {
  const [last, setLast] = useState<{ key: string; effects?: ParameterEffects }>()
  const asked = useRef('')
  const { slo } = answer.whatIf
  const { parameters, seed } = answer.experiment
  const served = listServedPoints(answer)
  const centre = findCentre(answer)
  const key = JSON.stringify([
    served.length,
    slo.limitMs,
    slo.percentile,
    served.at(-1)?.capacityRps,
    centre,
    pair,
  ])
  useLayoutEffect(() => {
    const { loading, printing } = answer
    if (loading || key === last?.key || (key === asked.current && !printing)) return
    asked.current = key
    const done = (effects?: ParameterEffects) => asked.current === key && setLast({ key, effects })
    askForEffects({ parameters, served, seed, centre, pair }, printing, done)
  })
  return { known: last?.effects, isAnswered: key === last?.key }
}

const Importance = ({ effects, answer: { theme } }: { effects: Effects; answer: Answer }) => (
  <div class="columns">
    <div>
      <h3>Importance</h3>
      <Chart
        name="importance"
        words={`Importance: ${effects.effects.map(({ parameter, importance: i }) => `${parameter} ${percent(i.median)}, ${percent(i.low)} to ${percent(i.high)}`).join('; ')}`}
        size="small"
        make={() => createImportanceOption(effects.effects, theme)}
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
            words={`Effect of ${effect.parameter}: ${effect.values.map((v) => `${v.value}: ${v.median.toFixed(2)} times the mean`).join(', ')}`}
            size="small"
            make={() => createEffectOption(effect, theme)}
          />
        ))}
      </div>
    </div>
  </div>
)

function BestSoFar({ answer }: { answer: Answer }) {
  const { trials, byTrial, ranker, whatIf, theme } = answer
  const [against, choose] = useState<'trials' | 'money'>('trials')
  const { pricePerHour } = ranker.createCriteria(whatIf)
  const points = listHistory(trials, byTrial, (t) => pricePerHour(t.configuration))
  const last = points.findLast((p) => p.best !== undefined)
  const first = points.find((p) => p.best !== undefined && p.best === last?.best)
  return (
    <div>
      <header>
        <h3>Best so far</h3>
        <Switch
          legend="Against"
          name="against"
          choices={[
            ['trials', 'trials'],
            ['money', 'money'],
          ]}
          value={against}
          choose={choose}
        />
      </header>
      <TrialChart
        answer={answer}
        name="history"
        words={
          first
            ? `Best so far: found in trial ${first.trial} of ${trials.length}`
            : 'No trial has met the SLO yet'
        }
        size="small"
        make={() => createHistoryOption(points, against, whatIf.objective, theme)}
      />
    </div>
  )
}

function PredictedAgainstMeasured({ answer }: { answer: Answer }) {
  const { trials, theme, experiment } = answer
  // What is predicted of another quantity than a rate is not compared with rates.
  const rates = modelsCapacityOrLatency(experiment.objective)
  const pairs = trials.flatMap(({ number, predicted, ...t }) =>
    rates && predicted && t.state === 'complete' && t.measurement.capacityRps > 0
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
        words={`${inside} of ${pairs.length} measurements lie within the predicted 90 % interval`}
        size="small"
        make={() => createPredictedOption(pairs, theme)}
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

/** In the order of trials, so that the model does not depend on the ranking. */
function listServedPoints({ candidates }: Answer): ServedPoint[] {
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
