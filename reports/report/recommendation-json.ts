/** The recommendation as a JSON document for other programs: 'tune.recommendation/v1'. */
import { z } from 'zod'
import {
  type LatencyMetric,
  latencyMetricNames,
  latencyMetrics,
  type StreamLatency,
  streamLatencies,
} from '../../profiler/model/latency-metrics.ts'
import { protocolNames } from '../../profiler/protocols/protocol-table.ts'
import { languageServers, serverKinds } from '../../trials/launchers/server-files/server-kinds.ts'
import type { MeasuredWith } from '../../trials/measured-with.ts'
import { statuses, statusNames } from '../recommendation/status.ts'
import {
  type Binding,
  bindings,
  type Conclusion,
  conclusions,
  type Recommendation,
} from '../recommendation/types.ts'
import { objectiveDocument } from './objective-document.ts'

/**
 * JSON has no infinity: null stands for a figure that is infinite or was never measured (the price
 * per request of what cannot serve).
 */
const figure = z.number().nullable()
const provenances = ['measured', 'emulated', 'simulated', 'imported'] as const
const configuration = z.record(z.string(), z.union([z.number(), z.string()]))

const slo = z.object({
  percentile: z.number().gt(0).lt(1).meta({ description: '0.99 for p99' }),
  limitMs: z.number().positive(),
  maxErrorRate: z.number().min(0).max(1),
  metric: z
    .enum(latencyMetricNames)
    .optional()
    .meta({ description: 'which latency of a streamed answer' }),
  limits: z
    .array(
      z.object({
        metric: z.enum(latencyMetricNames),
        limitMs: z.number().positive(),
        requestClass: z.string().optional().meta({
          description:
            'of requests of this class alone; absent: of the classes without limits of their own',
        }),
      }),
    )
    .optional()
    .meta({
      description:
        'of a joint SLO: a request is good when it keeps them all, `percentile` is the share that must be good, and latencies (sloMs...) are the greatest part of a limit, in units of the first',
    }),
  classes: z.array(z.string()).optional().meta({
    description:
      'classes of requests, each of which must keep the percentile by itself; sloMs... are of the worst of them',
  }),
})

const conclusionNames = Object.keys(conclusions) as [Conclusion, ...Conclusion[]]
const bindingNames = Object.keys(bindings) as [Binding, ...Binding[]]

const streamPercentiles = z.object({ p50Ms: figure, p90Ms: figure, p99Ms: figure })
const metrics = z.record(z.string(), figure)
const tokens = z.object({
  windowRps: z.number().optional().meta({
    description:
      'rate of the window nearest to the capacity, which latencies and goodput are of; they are absent where all windows are far above it',
  }),
  latencies: z
    .object(
      Object.fromEntries(
        Object.entries(streamLatencies).map(([name, { what }]) => [
          name,
          streamPercentiles.meta({ description: what }),
        ]),
      ) as Record<StreamLatency, typeof streamPercentiles>,
    )
    .optional(),
  classes: z
    .record(
      z.string(),
      z.object({
        latencies: z.object(
          Object.fromEntries(
            latencyMetricNames.map((name) => [
              name,
              streamPercentiles.meta({ description: latencyMetrics[name].what }),
            ]),
          ) as Record<LatencyMetric, typeof streamPercentiles>,
        ),
        good: z.number().meta({ description: 'share of its requests that kept its limits, 0-1' }),
      }),
    )
    .optional()
    .meta({
      description: 'of requests of several classes, by name: answers to each in that window',
    }),
  goodputRps: z
    .number()
    .optional()
    .meta({ description: 'requests that met the SLO in that window, per second' }),
  inputTokens: z.number().optional().meta({ description: 'mean of a request' }),
  outputTokens: z.number().meta({ description: 'mean of a request' }),
  outputTokensPerSecond: z.number().meta({ description: 'of one replica at its capacity' }),
  totalTokensPerSecond: z.number().optional().meta({ description: 'input and output' }),
  outputTokensPerSecondPerGpu: z
    .number()
    .optional()
    .meta({ description: 'a share of a GPU counts as that share' }),
  pricePerMillionInputTokens: figure
    .optional()
    .meta({ description: 'the whole price borne by the input, $' }),
  pricePerMillionOutputTokens: figure.meta({
    description: 'the whole price borne by the output, $',
  }),
  pricePerMillionTokens: figure
    .optional()
    .meta({ description: 'borne by input and output alike, $' }),
}) satisfies z.ZodType<unknown>

const candidate = z.object({
  trial: z.number().int().meta({ description: 'number of the trial it was measured in' }),
  configuration,
  label: z.string(),
  status: z.enum(statusNames).meta({
    description: Object.entries(statuses)
      .map(([name, what]) => `${name}: ${what}`)
      .join('; '),
  }),
  capacityRps: z.number().min(0).meta({
    description:
      'safe capacity, requests per second: the confirmed rate, or an estimate discounted as a confirmation would; costs, replicas and ranks are of this rate',
  }),
  estimateRps: z.number().optional().meta({
    description: 'estimate of one measurement before its discount; absent where there is none',
  }),
  capacityCi90Rps: z
    .tuple([figure, figure])
    .meta({ description: '90 % interval of the true capacity' }),
  heldRps: figure.optional().meta({
    description:
      'highest rate at which a window proved the SLO by itself, below all that missed it',
  }),
  predictedRps: z.tuple([figure, figure]).optional().meta({
    description: 'what the search predicted of the capacity before it was measured, 90 % interval',
  }),
  sloMsAtCapacity: figure.meta({
    description: 'latency of the SLO percentile at the safe capacity, ms',
  }),
  sloMsFrom: z.enum(['measured', 'model', 'idle']).meta({
    description:
      'whether that was measured in a window at that rate, was read off the load curve, or is that of one request at a time',
  }),
  idleMs: figure.optional().meta({ description: 'SLO percentile of one request at a time, ms' }),
  derived: z
    .boolean()
    .optional()
    .meta({ description: 'read off a load curve measured under another SLO' }),
  bound: z.enum(['lower', 'upper']).optional(),
  missed: z
    .object({ rateRps: z.number(), sloMs: figure, metrics: metrics.optional() })
    .optional()
    .meta({ description: 'of a refuted one: where its second load test violated the SLO' }),
  usage: z.record(z.string(), z.number()).optional().meta({
    description: 'what its trial used: cores busy, memory, GPU, power, seconds to launch',
  }),
  metrics: metrics.optional().meta({
    description: "of the server's own metrics, name → value, as they were read at this capacity",
  }),
  quality: z
    .number()
    .optional()
    .meta({ description: 'of the model variant, as the experiment states it' }),
  pricePerHour: figure.meta({ description: 'one replica, $' }),
  bundles: z
    .array(
      z.object({
        name: z.string(),
        replicas: z.number(),
        perHour: z.number(),
        instanceType: z.string().optional(),
        isFull: z.literal(true).optional(),
      }),
    )
    .readonly()
    .optional()
    .meta({
      description: 'whole instances that replicas are sold in, $ per hour; absent: each by itself',
    }),
  pricePerMillionRequests: figure.meta({ description: 'at the safe capacity, $' }),
  tokens: tokens.optional().meta({ description: 'of streamed answers' }),
  replicas: figure.optional(),
  totalPricePerHour: figure.optional(),
  cost: figure.meta({
    description: 'what is minimised: $, ms, J, a metric, or a negative rate or metric',
  }),
  feasible: z.boolean(),
  reason: z.string().optional(),
})

const measuredWith = z.object({
  how: z.enum(provenances),
  server: z.enum(['builtin', ...serverKinds, 'command', 'url', 'imported']),
  engine: z
    .enum(['tfjs', 'onnx', 'gguf', 'emulated'])
    .optional()
    .meta({ description: 'of the built-in predictor' }),
  runsIn: z.enum(['onnx']).optional().meta({
    description: 'of a model that was modelled by the graph of its file: what runs such a file',
  }),
  standsFor: z
    .enum(languageServers)
    .optional()
    .meta({ description: 'of the built-in predictor: the server that was named, which deploys' }),
  model: z.string(),
  protocol: z.enum(protocolNames).meta({ description: 'in which it was asked' }),
  path: z
    .string()
    .optional()
    .meta({ description: "of the inference call, where it is not the protocol's own" }),
  healthPath: z
    .string()
    .optional()
    .meta({ description: "where it says that it is ready, where that is not the protocol's own" }),
  body: z.string().optional().meta({ description: 'template of a request of protocol json' }),
  modelKind: z.enum(['encoder', 'convnet', 'decoder', 'unknown']),
  weights: z.enum(['none', 'random', 'own']).meta({
    description:
      "none: nothing computed; random: drawn from a seed; own: the user's, or the server's",
  }),
  weightsMiB: z.number().optional(),
  maxModelLen: z.number().optional(),
  acceptance: z.number().optional().meta({
    description:
      'of a modelled server with speculative decoding: probability that a draft token is accepted, assumed',
  }),
  weightsPath: z.string().optional(),
  image: z.string().optional().meta({ description: 'of trials on a cluster' }),
  command: z
    .array(z.string())
    .optional()
    .meta({ description: 'as the experiment says it, placeholders and all' }),
  url: z.string().optional().meta({ description: 'of a server that ran already' }),
  gpu: z.string().optional().meta({ description: 'catalogue name; absent: none was used' }),
}) satisfies z.ZodType<MeasuredWith>

/** Schema of the document. Fields may be added within v1; none is renamed or removed. */
export const recommendationDocument = z.object({
  schema: z.literal('tune.recommendation/v1'),
  experimentId: z.string(),
  provenance: z.enum(provenances),
  slo,
  objective: objectiveDocument,
  conclusion: z.enum(conclusionNames).meta({
    description: Object.entries(conclusions)
      .map(([name, what]) => `${name}: ${what}`)
      .join('; '),
  }),
  verdict: z.string(),
  best: candidate.optional(),
  nearest: candidate.optional(),
  measuredWith: measuredWith.optional().meta({
    description:
      'what the figures of `best` (or `nearest`) were measured of: only that server, so started, is known to have them',
  }),
  binding: z.object({ what: z.enum(bindingNames), evidence: z.string() }),
  front: z.array(candidate),
  qualityFronts: z
    .array(z.object({ leastQuality: z.number(), front: z.array(candidate) }))
    .optional()
    .meta({ description: 'with model variants: the front among those of at least that quality' }),
  alternatives: z.array(candidate.extend({ whyNot: z.string() })),
  defaultCandidate: candidate.optional(),
  gainOverDefault: figure.optional(),
  confirmation: z
    .object({
      trial: z.number().int(),
      held: z.boolean(),
      proven: z.boolean().meta({ description: 'the measurement proves it at 95 % by itself' }),
      rateRps: z.number(),
      sloMs: figure,
      sloCi95Ms: z.tuple([figure, figure]),
      sure: z.number().optional().meta({
        description:
          'confidence that the rate meets the SLO, 0 to 1; valid however often it was evaluated',
      }),
      seconds: z.number().optional().meta({
        description: 'under load at that rate; rarer outages would go unnoticed',
      }),
      missedRps: z.number().optional().meta({
        description: 'the lowest rate beyond it at which a window certainly violated the SLO',
      }),
      variation: z
        .object({
          found: z
            .array(z.string())
            .meta({ description: 'what shows that measurements disagree, a sentence each' }),
          windows: z.number().int(),
          spanS: z.number().meta({
            description: 'wall clock from the first window to the end of the last, seconds',
          }),
          sloMs: z
            .tuple([figure, figure])
            .meta({ description: 'lowest and highest SLO percentile of a window, ms' }),
          speed: z.tuple([z.number(), z.number()]).meta({
            description:
              'lowest and highest speed of the server in a window, over that in the first',
          }),
        })
        .optional()
        .meta({
          description: 'how measurements of the configuration disagree; absent: they agree',
        }),
    })
    .optional(),
  confidence: z.object({
    probabilityWithinTolerance: z.number().optional(),
    tooFewTrials: z
      .literal(true)
      .optional()
      .meta({ description: 'the stop rule was asked, and had nothing to go by' }),
    tolerance: z.number(),
    statement: z.string(),
  }),
  caveats: z.array(z.string()),
  seed: z.number(),
  trials: z.number().int(),
  files: z.array(z.string()).optional().meta({ description: 'files written beside it' }),
})
export type RecommendationDocument = z.infer<typeof recommendationDocument>

/**
 * The document of a recommendation. The confirmation's trial is named by its number; its
 * measurement is in the store.
 */
export function documentOf(recommendation: Recommendation): RecommendationDocument {
  const { confirmation, ...rest } = recommendation
  const plain = {
    ...rest,
    ...(confirmation
      ? { confirmation: { ...confirmation, trial: confirmation.trial.number } }
      : {}),
  }
  return recommendationDocument.parse(JSON.parse(JSON.stringify(plain)))
}

/** Text of `recommendation.json`. */
export const recommendationJson = (recommendation: Recommendation): string =>
  `${JSON.stringify(documentOf(recommendation), null, 2)}\n`

/** JSON schema of the document, for other programs. */
export const recommendationJsonSchema = () => z.toJSONSchema(recommendationDocument)
