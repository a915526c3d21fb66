/**
 * Argo Rollouts: the Deployment of plain Kubernetes as a Rollout. Each step of its canary is judged
 * by an AnalysisTemplate that runs `tune verify` as a Job: exit code 0 goes on, any other aborts.
 */
import { verifyArguments } from '../figures.ts'
import { labelsOf } from './available.ts'
import { incomplete } from './incomplete.ts'
import { kubernetesObjects, target as plainKubernetes } from './kubernetes-deployment.ts'
import {
  type Manifest,
  manifestsYaml,
  type SpecFile,
  verifiableService,
  yamlOf,
} from './manifest.ts'
import type { Serving } from './serving.ts'
import { SpecError } from './spec-error.ts'
import type { SpecOptions, SpecTarget } from './target.ts'

export const target: SpecTarget = {
  title: 'Argo Rollouts',
  files: ['rollout.yaml'],
  writes:
    'Rollout v1alpha1, its stable and canary Services, and an AnalysisTemplate that runs `tune verify` against the new pods',
  needs: 'Argo Rollouts 1.6 or later, and an image of tune (`--tuner-image`)',
  scaledBy: 'a fixed number of replicas',
  servers: plainKubernetes.servers,
  needsModelUri: plainKubernetes.needsModelUri,
  takes: ['backend', 'tunerImage'],
  takesOwnPod: true,
  namespaced: true,
  host: ({ name }) => name,
  render: rolloutSpec,
}

const apiVersion = 'argoproj.io/v1alpha1'
/** As deploy/README.md builds it. */
const localTunerImage = 'tune:0.1.0'
const localTunerNote = incomplete(
  `image ${localTunerImage} of the analysis is in no registry`,
  'Build it as in deploy/README.md, push it and run again with --tuner-image.',
)
/** Per cent of the replicas that are new when the canary is judged; after the last, all are. */
const weights = [20, 50]
/** The whole Job, with the pull of its image; the load itself takes 30 s. */
const maxJobSeconds = 900
const [bodyFolder, bodyFile] = ['/etc/tune', 'service.yaml']

function rolloutSpec(serving: Serving, { backend, tunerImage }: SpecOptions): SpecFile[] {
  const { name, headroom } = serving
  if (headroom <= 0)
    throw new SpecError(
      'the analysis of a canary loads the rate that the headroom leaves free, and the headroom is 0',
      'set a headroom, such as --headroom 20%',
    )
  const { objects, notes, namespace } = kubernetesObjects(serving, { autoscaler: 'none', backend })
  const named = (kind: string) => objects.find((object) => object.kind === kind)!
  const body = verifiableService(serving, name, 1).body
  const all = [
    ...objects.map((one) => (one.kind === 'Deployment' ? rolloutOf(serving, one) : one)),
    ...[`${name}-stable`, `${name}-canary`].map((service) => renamed(named('Service'), service)),
    ...(body === undefined ? [] : [bodyMap(serving, body)]),
    analysisTemplate(serving, tunerImage ?? localTunerImage, body !== undefined),
  ]
  const own = [
    ...(tunerImage === undefined ? [localTunerNote] : []),
    'needs the controller of Argo Rollouts 1.6 or later; the first apply replaces nothing, so no analysis runs',
    `clients use Service ${name}, which has new and old pods; tune verify loads ${name}-canary, which has only the new ones`,
    'the analysis adds only the rate that the headroom leaves free at the planned peak: roll out at a busy hour, or raise the rates',
  ]
  return [
    { name: 'rollout.yaml', text: manifestsYaml(serving, all, [...own, ...notes], namespace) },
  ]
}

const renamed = (object: Manifest, name: string): Manifest => ({
  ...object,
  metadata: { ...(object.metadata as Manifest), name },
})

function rolloutOf(serving: Serving, deployment: Manifest): Manifest {
  const { name } = serving
  const steps = weights.flatMap((weight) => [
    { setWeight: weight },
    {
      analysis: {
        templates: [{ templateName: `${name}-verify` }],
        args: [{ name: 'rate', value: `${freeRateRps(serving, weight)}rps` }],
      },
    },
  ])
  return {
    ...deployment,
    apiVersion,
    kind: 'Rollout',
    spec: {
      ...(deployment.spec as Manifest),
      // A canary that never gets ready is taken back, as one that fails.
      progressDeadlineAbort: true,
      strategy: {
        canary: {
          stableService: `${name}-stable`,
          canaryService: `${name}-canary`,
          // No replica fewer than planned at any time.
          maxSurge: 1,
          maxUnavailable: 0,
          steps,
        },
      },
    },
  }
}

/** What the new pods can answer on top of their share of production at its planned peak. */
function freeRateRps({ perReplicaRps, headroom, replicas }: Serving, weight: number): number {
  const pods = Math.max(1, Math.floor((replicas * weight) / 100))
  const rps = (pods * perReplicaRps * headroom) / (1 - headroom)
  return rps >= 10 ? Math.floor(rps) : Number(rps.toPrecision(2))
}

/**
 * The body of requests as an experiment file: in the template the controller would take its
 * `{{text}}` for an argument of the analysis.
 */
const bodyMap = (serving: Serving, body: string): Manifest => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: `${serving.name}-verify`, labels: labelsOf(serving) },
  data: { [bodyFile]: yamlOf({ predictor: { body } }) },
})

function analysisTemplate(serving: Serving, image: string, hasBody: boolean): Manifest {
  const name = `${serving.name}-verify`
  const service = { ...verifiableService(serving, `${serving.name}-canary`, 1), body: undefined }
  const args = verifyArguments(service)
  args[args.indexOf('--rate') + 1] = '{{args.rate}}'
  const container = {
    name: 'tune',
    image,
    args: [...args, ...(hasBody ? ['-f', `${bodyFolder}/${bodyFile}`] : [])],
    securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
    resources: {
      requests: { cpu: '500m', memory: '512Mi' },
      limits: { cpu: '2', memory: '1Gi' },
    },
    ...(hasBody && { volumeMounts: [{ name: 'body', mountPath: bodyFolder }] }),
  }
  const pod = {
    restartPolicy: 'Never',
    securityContext: {
      runAsNonRoot: true,
      runAsUser: 1000,
      seccompProfile: { type: 'RuntimeDefault' },
    },
    containers: [container],
    ...(hasBody && { volumes: [{ name: 'body', configMap: { name } }] }),
  }
  const job = {
    // Code 1 is a measurement that could not be told, which another try may settle.
    backoffLimit: 2,
    podFailurePolicy: {
      rules: [
        {
          action: 'FailJob',
          onExitCodes: { containerName: 'tune', operator: 'NotIn', values: [0, 1] },
        },
      ],
    },
    activeDeadlineSeconds: maxJobSeconds,
    template: {
      // A Job with a mesh's sidecar would never end.
      metadata: {
        labels: { 'sidecar.istio.io/inject': 'false' },
        annotations: { 'linkerd.io/inject': 'disabled' },
      },
      spec: pod,
    },
  }
  return {
    apiVersion,
    kind: 'AnalysisTemplate',
    metadata: { name, labels: labelsOf(serving) },
    spec: {
      args: [{ name: 'rate' }],
      metrics: [{ name: 'slo-met', provider: { job: { spec: job } } }],
    },
  }
}
