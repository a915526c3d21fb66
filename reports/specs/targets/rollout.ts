/**
 * Argo Rollouts: the Deployment of plain Kubernetes as a Rollout. A Job of the AnalysisTemplate
 * runs `tune verify` at each step of the canary: exit code 0 continues, any other aborts.
 */
import { listVerifyArguments } from '../../figures.ts'
import { buildLabels } from '../availability.ts'
import { formatYaml, type Manifest, removeUndefined } from '../manifest.ts'
import { describeMissing } from '../placeholders.ts'
import { buildVerifyTarget } from '../provenance.ts'
import type { Serving } from '../serving.ts'
import { SpecError } from '../spec-error.ts'
import type { SpecContent, SpecOptions, SpecTarget } from '../target.ts'
import { target as plainKubernetes, renderDeployment } from './kubernetes.ts'

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
  isNamespaced: true,
  host: ({ name }) => name,
  render: renderRollout,
}

const apiVersion = 'argoproj.io/v1alpha1'
/** Tag of the image that deploy/README.md builds. */
const localTunerImage = 'tune:0.1.0'
const localTunerNote = describeMissing(
  `image ${localTunerImage} of the analysis is in no registry`,
  'Build it as in deploy/README.md, push it and run again with --tuner-image.',
)
/**
 * Per cent of the replicas that are new at each check of the canary; after the last check, all are.
 */
const weights = [20, 50]
/** Limit of the whole Job, with the pull of its image; the load itself takes 30 s. Assumed. */
const maxJobSeconds = 900
const [bodyFolder, bodyFile] = ['/etc/tune', 'service.yaml']

function renderRollout(serving: Serving, { backend, tunerImage }: SpecOptions): SpecContent {
  const { name, headroom } = serving
  if (headroom <= 0)
    throw new SpecError(
      'the analysis of a canary loads the rate that the headroom leaves free, and the headroom is 0',
      'set a headroom, such as --headroom 20%',
    )
  const deployment = renderDeployment(serving, { autoscaler: 'none', backend })
  const service = deployment.body.find(({ kind }) => kind === 'Service')!
  const { body } = buildVerifyTarget(serving, name, 1)
  return {
    ...deployment,
    name: 'rollout.yaml',
    body: [
      ...deployment.body.map((object) =>
        object.kind === 'Deployment' ? convertDeployment(serving, object) : object,
      ),
      ...[`${name}-stable`, `${name}-canary`].map((copy) => ({
        ...service,
        metadata: { ...(service.metadata as Manifest), name: copy },
      })),
      ...(body === undefined ? [] : [buildBodyMap(serving, body)]),
      buildAnalysisTemplate(serving, tunerImage ?? localTunerImage, body !== undefined),
    ],
    notes: [
      ...(tunerImage === undefined ? [localTunerNote] : []),
      'needs the controller of Argo Rollouts 1.6 or later; the first apply replaces nothing, so no analysis runs',
      `clients use Service ${name}, which has new and old pods; tune verify loads ${name}-canary, which has only the new ones`,
      'the analysis adds only the rate that the headroom leaves free at the planned peak: roll out at a busy hour, or raise the rates',
      ...(deployment.notes ?? []),
    ],
  }
}

const convertDeployment = (serving: Serving, deployment: Manifest): Manifest => ({
  ...deployment,
  apiVersion,
  kind: 'Rollout',
  spec: {
    ...removeUndefined(deployment.spec as Manifest),
    // A canary that never gets ready is aborted, as one that fails.
    progressDeadlineAbort: true,
    strategy: {
      canary: {
        stableService: `${serving.name}-stable`,
        canaryService: `${serving.name}-canary`,
        // No replica fewer than planned at any time.
        maxSurge: 1,
        maxUnavailable: 0,
        steps: weights.flatMap((weight) => [
          { setWeight: weight },
          {
            analysis: {
              templates: [{ templateName: `${serving.name}-verify` }],
              args: [{ name: 'rate', value: `${computeFreeRps(serving, weight)}rps` }],
            },
          },
        ]),
      },
    },
  },
})

/** Rate that the new pods can answer beside their share of production at its planned peak. */
function computeFreeRps({ perReplicaRps, headroom, replicas }: Serving, weight: number): number {
  const pods = Math.max(1, Math.floor((replicas * weight) / 100))
  const rps = (pods * perReplicaRps * headroom) / (1 - headroom)
  return rps >= 10 ? Math.floor(rps) : Number(rps.toPrecision(2))
}

/**
 * Builds the body of requests as an experiment file. In the template, the controller would read its
 * `{{text}}` as an argument of the analysis.
 */
const buildBodyMap = (serving: Serving, body: string): Manifest => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: `${serving.name}-verify`, labels: buildLabels(serving) },
  data: { [bodyFile]: formatYaml({ predictor: { body } }) },
})

function buildAnalysisTemplate(serving: Serving, image: string, hasBody: boolean): Manifest {
  const name = `${serving.name}-verify`
  const service = { ...buildVerifyTarget(serving, `${serving.name}-canary`, 1), body: undefined }
  const args = listVerifyArguments(service)
  args[args.indexOf('--rate') + 1] = '{{args.rate}}'
  const job = {
    // Exit code 1 is an inconclusive measurement, which another try may settle.
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
      spec: {
        restartPolicy: 'Never',
        securityContext: {
          runAsNonRoot: true,
          runAsUser: 1000,
          seccompProfile: { type: 'RuntimeDefault' },
        },
        containers: [
          {
            name: 'tune',
            image,
            args: [...args, ...(hasBody ? ['-f', `${bodyFolder}/${bodyFile}`] : [])],
            securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
            resources: {
              requests: { cpu: '500m', memory: '512Mi' },
              limits: { cpu: '2', memory: '1Gi' },
            },
            volumeMounts: hasBody ? [{ name: 'body', mountPath: bodyFolder }] : undefined,
          },
        ],
        volumes: hasBody ? [{ name: 'body', configMap: { name } }] : undefined,
      },
    },
  }
  return {
    apiVersion,
    kind: 'AnalysisTemplate',
    metadata: { name, labels: buildLabels(serving) },
    spec: {
      args: [{ name: 'rate' }],
      metrics: [{ name: 'slo-met', provider: { job: { spec: job } } }],
    },
  }
}
