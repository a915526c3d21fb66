/** Prediction of pipelines from the demands of their stages, as trials measured them. */
import { hasNoResult } from '../../../profiler/capacity/capacity-bounds.ts'
import type { Slo } from '../../../profiler/model/slo.ts'
import type { Configuration, Parameter } from '../../../search/types.ts'
import type { Pipeline } from '../../pipeline/pipeline.ts'
import type { FinishedTrial } from '../../types.ts'
import { createPipelinePredictor, type PredictedPipeline } from './pipeline-estimate.ts'
import { applyMeasuredVisits, learnStageDemand } from './stage-demand.ts'
import { createStageQueue } from './stage-queue.ts'

/**
 * Creates a predictor from what trials measured of the stages; undefined for configurations of
 * which they tell too little.
 * @param parameters of one replica of each stage, by the names of the stages
 */
export function createLearnedPipelinePredictor(
  pipeline: Pipeline,
  parameters: ReadonlyMap<string, readonly Parameter[]>,
  slo: Pick<Slo, 'percentile' | 'limitMs'>,
  trials: readonly FinishedTrial[],
): (configuration: Configuration) => PredictedPipeline | undefined {
  // Other work on the machine disturbs the times of the stages, too.
  const informative = trials.filter(
    (trial) => trial.state === 'complete' && !hasNoResult(trial.measurement),
  )
  const demands = new Map(
    pipeline.stages.map(({ name }) => [
      name,
      learnStageDemand(name, parameters.get(name)!, informative),
    ]),
  )
  return createPipelinePredictor(
    applyMeasuredVisits(pipeline, informative),
    slo,
    (stage, configuration) => {
      const demand = demands.get(stage)!(configuration)
      return demand && createStageQueue(demand, configuration)
    },
  )
}
