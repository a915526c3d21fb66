/** Schema of a stage of a pipeline: a predictor with its own space, and the stages that it calls. */

import { z } from 'zod'
import type { StageCall } from '../../../trials/pipeline/pipeline.ts'
import { parseCallRatio } from '../values/units.ts'
import { model } from './model-schema.ts'
import { parameter, scalar } from './parameter-schema.ts'
import { podKeys } from './pod-schema.ts'
import { predictor } from './predictor-schema.ts'
import { boolean, createCodec, createQuantity, optional, text } from './schema-parts.ts'

const calledNames = createCodec(
  z.array(text('the name of a stage')),
  (names) => names.map((stage): StageCall => ({ stage, ratio: 1 })),
  (calls) =>
    calls.every(({ ratio }) => ratio === 1) ? calls.map(({ stage }) => stage) : undefined,
)
const callRatio = createQuantity(
  parseCallRatio,
  'calls per request such as 1, 3 or 30%',
  (ratio) => ratio,
)
const calledRatios = createCodec(
  z.record(text('the name of a stage'), callRatio),
  (ratios) => Object.entries(ratios).map(([stage, ratio]): StageCall => ({ stage, ratio })),
  (calls) => Object.fromEntries(calls.map(({ stage, ratio }) => [stage, ratio])),
)
const calls = z.union([calledNames, calledRatios], {
  error: 'expected names of stages, or name: calls per request pairs',
})

export const stage = z.strictObject({
  model: optional(
    model,
    'model of the stage, as `model` of a single predictor; of a Triton server: its name in the model repository, if the stage has another',
  ),
  predictor: optional(predictor, 'server of the stage; default: builtin'),
  kubernetes: optional(
    z.strictObject(podKeys),
    'pod of the stage on a cluster (pod, container, port), as `kubernetes` of a single predictor',
  ),
  calls: optional(
    calls,
    'stages that this one calls for each request, after its own work and in this order: [classify, ocr], or with the mean number of calls: {classify: 3, ocr: 30%}',
  ),
  parallelCalls: optional(
    boolean,
    'whether all calls are made at once; default: false, each waits for the answer of the one before',
  ),
  replicas: optional(parameter, 'numbers of replicas to try, e.g. 1..4; default: 1'),
  space: optional(
    z.record(z.string(), parameter, { error: 'expected name: values pairs' }),
    'parameters of the stage to tune, as `space` of a single predictor',
  ),
  constraints: optional(
    z.union([z.array(text('a condition')), createCodec(text('a condition'), (one) => [one])], {
      error: 'expected a list of conditions',
    }),
    'conditions on the parameters of the stage',
  ),
  pin: optional(
    z.record(z.string(), scalar, { error: 'expected name: value pairs' }),
    'parameters of the stage fixed at one value',
  ),
})

export type StageEntry = z.output<typeof stage>
