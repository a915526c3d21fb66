/**
 * The recommendation as a JSON document for other programs: 'tune.recommendation/v1'. The
 * descriptions are the reference of its fields (docs/reference/results.md).
 */
import { z } from 'zod'
import {
  type LatencyMetric,
  latencyMetricNames,
  latencyMetrics,
  type StreamLatency,
  streamLatencies,
} from '../../profiler/model/latency-metrics.ts'
import { protocolNames } from '../../profiler/protocols/protocol-table.ts'
import type { MeasuredWith } from '../../trials/measured-with.ts'
import { languageServers, serverKinds } from '../../trials/servers/server-kinds.ts'
import { statusNames } from '../recommendation/status.ts'
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

const slo = z
  .object({
    percentile: z
      .number()
      .gt(0)
      .lt(1)
      .describe('Share of requests that must be within the limit: 0.99 for p99.'),
    limitMs: z
      .number()
      .positive()
      .describe('Latency limit, ms; of an SLO with several limits the first one.'),
    maxErrorRate: z.number().min(0).max(1).describe('Maximum share of failed requests, 0-1.'),
    metric: z
      .enum(latencyMetricNames)
      .optional()
      .describe('Latency of a streamed answer that the limit is about.'),
    limits: z
      .array(
        z.object({
          metric: z.enum(latencyMetricNames).describe('Latency of a streamed answer.'),
          limitMs: z.number().positive().describe('Its limit, ms.'),
          requestClass: z
            .string()
            .optional()
            .describe(
              'Class of requests that the limit is for; absent: all classes without limits of their own.',
            ),
        }),
      )
      .optional()
      .describe(
        'Limits of an SLO with several. A request is good when it meets all of them, and `percentile` is the share of good requests. A latency (`sloMs...`) is then the largest fraction of a limit, times `limitMs`.',
      ),
    classes: z
      .array(z.string())
      .optional()
      .describe(
        'Classes of requests. Each one must meet the percentile; `sloMs...` is that of the worst class.',
      ),
  })
  .meta({ id: 'Slo' })

const conclusionNames = Object.keys(conclusions) as [Conclusion, ...Conclusion[]]
const bindingNames = Object.keys(bindings) as [Binding, ...Binding[]]

const streamPercentiles = z
  .object({
    p50Ms: figure.describe('Median, ms.'),
    p90Ms: figure.describe('90th percentile, ms.'),
    p99Ms: figure.describe('99th percentile, ms.'),
  })
  .meta({ id: 'Percentiles' })
const sentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`
const metrics = z.record(z.string(), figure)
const tokens = z
  .object({
    windowRps: z
      .number()
      .optional()
      .describe(
        'Rate of the window nearest to the capacity, requests per second. `latencies`, `classes` and `goodputRps` are of this window; they are absent when every window is far above the capacity.',
      ),
    latencies: z
      .object(
        Object.fromEntries(
          Object.entries(streamLatencies).map(([name, { what }]) => [
            name,
            streamPercentiles.describe(sentence(what)),
          ]),
        ) as Record<StreamLatency, typeof streamPercentiles>,
      )
      .optional()
      .describe('Latencies in that window.'),
    classes: z
      .record(
        z.string(),
        z.object({
          latencies: z
            .object(
              Object.fromEntries(
                latencyMetricNames.map((name) => [
                  name,
                  streamPercentiles.describe(sentence(latencyMetrics[name].what)),
                ]),
              ) as Record<LatencyMetric, typeof streamPercentiles>,
            )
            .describe('Latencies of its answers.'),
          good: z.number().describe('Share of its requests within their limits, 0-1.'),
        }),
      )
      .optional()
      .describe('Classes of requests, by name: their answers in that window.'),
    goodputRps: z
      .number()
      .optional()
      .describe('Requests per second that met the SLO in that window.'),
    inputTokens: z.number().optional().describe('Mean input tokens of a request.'),
    outputTokens: z.number().describe('Mean output tokens of a request.'),
    outputTokensPerSecond: z
      .number()
      .describe('Output tokens per second of one replica at its safe capacity.'),
    totalTokensPerSecond: z
      .number()
      .optional()
      .describe('Input and output tokens per second of one replica at its safe capacity.'),
    outputTokensPerSecondPerGpu: z
      .number()
      .optional()
      .describe('Output tokens per second and GPU; a share of a GPU counts as that share.'),
    pricePerMillionInputTokens: figure
      .optional()
      .describe('$ per million input tokens, when they bear the whole price.'),
    pricePerMillionOutputTokens: figure.describe(
      '$ per million output tokens, when they bear the whole price.',
    ),
    pricePerMillionTokens: figure
      .optional()
      .describe('$ per million tokens, when input and output bear the price alike.'),
  })
  .meta({ id: 'Tokens' }) satisfies z.ZodType<unknown>

const candidateFields = z.object({
  trial: z.number().int().describe('Number of the trial that measured it.'),
  configuration: configuration.describe('Parameter to value.'),
  label: z.string().describe('The configuration in words.'),
  status: z
    .enum(statusNames)
    .describe(
      'How far its figures can be relied on: see Status. In a simulated run, of simulated load tests.',
    ),
  capacityRps: z
    .number()
    .min(0)
    .describe(
      'Safe capacity, requests per second: the confirmed rate, or an estimate with the discount that a confirmation would apply. Costs, replicas and ranks use this rate.',
    ),
  estimateRps: z
    .number()
    .optional()
    .describe('Estimate of one measurement before its discount, requests per second.'),
  capacityCi90Rps: z.tuple([figure, figure]).describe('90 % interval of the true capacity.'),
  provenRps: figure
    .optional()
    .describe(
      'Highest rate at which a window proved the SLO by itself, below every rate that violated it.',
    ),
  predictedRps: z
    .tuple([figure, figure])
    .optional()
    .describe('90 % interval that the search predicted for the capacity before it was measured.'),
  sloMsAtCapacity: figure.describe('Latency at the SLO percentile and the safe capacity, ms.'),
  sloMsFrom: z
    .enum(['measured', 'model', 'unloaded'])
    .describe(
      'Source of that latency: a window at that rate, the load curve, or one request at a time.',
    ),
  unloadedMs: figure
    .optional()
    .describe('Latency at the SLO percentile with one request at a time, ms.'),
  derived: z
    .boolean()
    .optional()
    .describe('true: read off a load curve that was measured under another SLO.'),
  bound: z
    .enum(['lower', 'upper'])
    .optional()
    .describe(
      'lower: the true capacity is at least the estimate. upper: it is at most `capacityRps`.',
    ),
  missed: z
    .object({
      rateRps: z.number().describe('The rate, requests per second.'),
      sloMs: figure.describe('Latency at the SLO percentile, ms.'),
      metrics: metrics.optional().describe("The server's own metrics at that rate."),
    })
    .optional()
    .describe('Where the second load test of a refuted configuration violated the SLO.'),
  usage: z
    .record(z.string(), z.number())
    .optional()
    .describe('What its trial used: cores, memory, GPU, power, seconds to launch.'),
  metrics: metrics.optional().describe("The server's own metrics at the safe capacity, by name."),
  quality: z
    .number()
    .optional()
    .describe('Quality of the model variant, as the experiment states it.'),
  pricePerHour: figure.describe('Price of one replica, $ per hour.'),
  bundles: z
    .array(
      z.object({
        name: z.string().describe('Name of the instance.'),
        replicas: z.number().describe('Replicas that fit on it.'),
        perHour: z.number().describe('Price, $ per hour.'),
        instanceType: z
          .string()
          .optional()
          .describe('Value of the node label `node.kubernetes.io/instance-type`.'),
        isFull: z
          .literal(true)
          .optional()
          .describe('true: its replicas take all its cores or all its memory.'),
      }),
    )
    .readonly()
    .optional()
    .describe('Whole instances that replicas are sold in; absent: each replica has its own price.'),
  pricePerMillionRequests: figure.describe('$ per million requests at the safe capacity.'),
  tokens: tokens.optional().describe('Figures of streamed answers.'),
  replicas: figure.optional().describe('Replicas for the demand.'),
  totalPricePerHour: figure.optional().describe('Price of those replicas, $ per hour.'),
  cost: figure.describe(
    'What the objective minimises: $, ms, J or a metric; the negative of a rate or metric that is maximised.',
  ),
  feasible: z.boolean().describe('Whether it meets the SLO and the bounds.'),
  reason: z.string().optional().describe('Why it is not feasible.'),
})
const candidate = candidateFields.meta({ id: 'Configuration' })
const alternative = candidateFields
  .extend({ whyNot: z.string().describe('Why it is not the recommended one.') })
  .meta({ id: 'Alternative' })

const measuredWith = z
  .object({
    how: z.enum(provenances).describe('How the figures came about.'),
    server: z
      .enum(['builtin', ...serverKinds, 'command', 'url', 'imported'])
      .describe('The server: built-in, a preset, your own command, a running server.'),
    engine: z
      .enum(['tfjs', 'onnx', 'gguf', 'emulated'])
      .optional()
      .describe('Engine of the built-in server.'),
    runsIn: z
      .enum(['onnx'])
      .optional()
      .describe('Engine that runs a model of which only the graph was modelled.'),
    standsFor: z
      .enum(languageServers)
      .optional()
      .describe('Server that the built-in one was modelled on, and that a spec deploys.'),
    model: z.string().describe('Name of the model.'),
    protocol: z.enum(protocolNames).describe('Protocol of the requests.'),
    path: z
      .string()
      .optional()
      .describe("Path of the inference call, when it is not the protocol's own."),
    healthPath: z
      .string()
      .optional()
      .describe("Path of the readiness check, when it is not the protocol's own."),
    body: z.string().optional().describe('Template of a request of the protocol `json`.'),
    modelKind: z
      .enum(['encoder', 'convnet', 'decoder', 'unknown'])
      .describe('Family of the model; `decoder` is a language model.'),
    weights: z
      .enum(['none', 'random', 'own'])
      .describe(
        'none: nothing was computed. random: drawn from a seed. own: those of the user or the server.',
      ),
    weightsMiB: z.number().optional().describe('Size of the weights, MiB.'),
    maxModelLen: z.number().optional().describe('Longest sequence, tokens.'),
    acceptance: z
      .number()
      .optional()
      .describe('Assumed probability that a draft token is accepted (speculative decoding).'),
    weightsPath: z.string().optional().describe('Place of the weights.'),
    image: z.string().optional().describe('Image of trials on a cluster.'),
    command: z
      .array(z.string())
      .optional()
      .describe('Command as the experiment has it, placeholders included.'),
    url: z.string().optional().describe('URL of a server that was already running.'),
    gpu: z.string().optional().describe('Catalogue name of the GPU; absent: no GPU.'),
  })
  .meta({ id: 'MeasuredWith' }) satisfies z.ZodType<MeasuredWith>

const variation = z
  .object({
    found: z.array(z.string()).describe('The evidence, a sentence each.'),
    windows: z.number().int().describe('Number of windows.'),
    spanS: z
      .number()
      .describe('Seconds from the start of the first window to the end of the last.'),
    sloMs: z.tuple([figure, figure]).describe('Lowest and highest SLO percentile of a window, ms.'),
    speed: z
      .tuple([z.number(), z.number()])
      .describe('Lowest and highest speed of the server in a window, relative to the first.'),
  })
  .meta({ id: 'Variation' })

const confirmation = z
  .object({
    trial: z.number().int().describe('Number of its trial.'),
    met: z.boolean().describe('Whether the SLO was met at `rateRps`.'),
    proven: z.boolean().describe('Whether this measurement alone proves it with 95 % confidence.'),
    rateRps: z
      .number()
      .describe(
        'The confirmed rate, requests per second; without one, the lowest rate that violated the SLO.',
      ),
    sloMs: figure.describe('Latency at the SLO percentile and that rate, ms.'),
    sloCi95Ms: z.tuple([figure, figure]).describe('Its 95 % interval.'),
    confidence: z
      .number()
      .optional()
      .describe(
        'Confidence that the rate meets the SLO, 0-1. It stays valid however often it was evaluated.',
      ),
    seconds: z
      .number()
      .optional()
      .describe('Seconds of load at that rate. Rarer outages stay unnoticed.'),
    violatedRps: z
      .number()
      .optional()
      .describe('Lowest higher rate at which a window certainly violated the SLO.'),
    variation: variation
      .optional()
      .describe('How measurements of the configuration disagree; absent: they agree.'),
  })
  .meta({ id: 'Confirmation' })

const stageReport = z
  .object({
    stage: z.string().describe('Name of the stage.'),
    replicas: z.number().describe('Replicas of the stage.'),
    label: z.string().describe('Configuration of one replica, in words.'),
    priceShare: z
      .number()
      .optional()
      .describe('Share of the price of the pipeline, 0 to 1; absent: the stages share a server.'),
    visits: z.number().optional().describe('Mean visits of a request.'),
    meanMs: z.number().optional().describe('Mean time of a visit without its calls, ms.'),
    timeShare: z
      .number()
      .optional()
      .describe('Share of the time that a request spends in all stages, 0 to 1.'),
    busyShare: z
      .number()
      .optional()
      .describe('Mean busy share of its busier resource during the load test, 0 to 1.'),
  })
  .meta({ id: 'Stage' })

/** Schema of the document. Fields may be added within v1; none is renamed or removed. */
export const recommendationDocument = z.object({
  schema: z.literal('tune.recommendation/v1').describe('Name and version of the format.'),
  experimentId: z.string().describe('Id of the experiment.'),
  provenance: z.enum(provenances).describe('How all figures came about.'),
  slo: slo.describe('The SLO.'),
  objective: objectiveDocument.describe('What was optimised.'),
  conclusion: z
    .enum(conclusionNames)
    .describe('What the run comes to. The exit code follows from it.'),
  verdict: z.string().describe('The recommendation in one sentence.'),
  best: candidate
    .optional()
    .describe('The recommended configuration; absent when nothing meets the SLO.'),
  nearest: candidate
    .optional()
    .describe('When nothing meets the SLO: the configuration that comes nearest.'),
  measuredWith: measuredWith
    .optional()
    .describe(
      'What served `best` (or `nearest`) in its trial. The figures are known for this server alone.',
    ),
  binding: z
    .object({
      what: z.enum(bindingNames).describe('What limits it.'),
      evidence: z.string().describe('The evidence, in words.'),
    })
    .describe('What limits the best configuration, or keeps the nearest one from the SLO.'),
  stages: z
    .array(stageReport)
    .optional()
    .describe('Of a pipeline: the stages of `best` (or `nearest`), callers first.'),
  relaxedSlo: z
    .object({
      limitMs: z.number().describe('The looser limit, ms.'),
      saving: z.number().describe('Share of the cost that it would save, 0 to 1.'),
    })
    .optional()
    .describe(
      'Of a pipeline: what a limit that is 10 % looser would save, by the measured load curves.',
    ),
  predictionError: z
    .object({
      trials: z.number().describe('Trials whose capacity was predicted.'),
      median: z.number().describe('Median error, as a share of the measured capacity.'),
      p90: z.number().describe('Error that nine of ten predictions do not exceed.'),
      subject: z
        .object({
          predictedRps: z.number().describe('Capacity predicted before the trial.'),
          measuredRps: z.number().describe('Capacity that the trial measured.'),
        })
        .optional()
        .describe('Of `best` (or `nearest`), if it was predicted.'),
    })
    .optional()
    .describe('Of a pipeline: how far predictions of the search were from measured capacities.'),
  front: z
    .array(candidate)
    .describe(
      'Pareto front by rising latency: for each tighter limit the configuration with the most throughput per dollar, at its safe capacity under that limit.',
    ),
  qualityFronts: z
    .array(
      z.object({
        minQuality: z.number().describe('Minimum quality of its variants.'),
        front: z.array(candidate).describe('The front among them.'),
      }),
    )
    .optional()
    .describe('With model variants: one front for each quality, best quality first.'),
  alternatives: z
    .array(alternative)
    .describe('All other configurations: feasible ones, cheapest first, then infeasible ones.'),
  defaultCandidate: candidate
    .optional()
    .describe('The baseline: one whole GPU and batch 1, or the nearest configuration to it.'),
  gainOverDefault: figure.optional().describe('Cost of the baseline divided by that of the best.'),
  confirmation: confirmation
    .optional()
    .describe('The second, independent load test of the best configuration.'),
  confidence: z
    .object({
      probabilityWithinTolerance: z
        .number()
        .optional()
        .describe(
          'Probability, by the model of the search, that no untried configuration is better by more than the tolerance.',
        ),
      tooFewTrials: z
        .literal(true)
        .optional()
        .describe('true: there were too few trials for such a probability.'),
      tolerance: z.number().describe('The tolerance, 0.05 for 5 %.'),
      statement: z.string().describe('The same in words.'),
    })
    .describe('How likely it is that the search found the best configuration.'),
  caveats: z
    .array(z.string())
    .describe('What a reader must know before relying on the figures, a sentence each.'),
  seed: z.number().describe('Random seed of the run.'),
  trials: z.number().int().describe('Number of trials.'),
  maxTrials: z
    .number()
    .int()
    .optional()
    .describe(
      'Limit of the run. Confirmations and trials without a result do not count towards it.',
    ),
  files: z
    .array(z.string())
    .optional()
    .describe('Paths of the files that were written; in the output of `--json` alone.'),
})
export type RecommendationDocument = z.infer<typeof recommendationDocument>

/**
 * The document of a recommendation. The confirmation's trial is named by its number; its
 * measurement is in the store.
 */
export function toDocument(recommendation: Recommendation): RecommendationDocument {
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
export const createRecommendationJson = (recommendation: Recommendation): string =>
  `${JSON.stringify(toDocument(recommendation), null, 2)}\n`

/** JSON schema of the document, for other programs. */
export const createRecommendationJsonSchema = () => z.toJSONSchema(recommendationDocument)
