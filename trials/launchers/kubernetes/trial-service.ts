/** The Service of one trial's pod, through which load goes where the experiment says so. */
import { type Json, labelNames, type Owner, ownerReferences } from './manifests.ts'

interface TrialObject {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly owner: Owner
  readonly port: number
}

/** @param speaks names the port, which service meshes read the protocol from */
export function trialService(
  { name, labels, owner, port }: TrialObject,
  speaks: 'http' | 'grpc',
): Json {
  const selector = Object.fromEntries(
    [labelNames.experiment, labelNames.trial, labelNames.role].map((label) => [
      label,
      labels[label],
    ]),
  )
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, labels, ownerReferences: ownerReferences(owner) },
    spec: { selector, ports: [{ name: speaks, port, targetPort: port, appProtocol: speaks }] },
  }
}

/** What the load generator calls. */
export const serviceUrl = (name: string, namespace: string, port: number): string =>
  `http://${name}.${namespace}.svc:${port}`
