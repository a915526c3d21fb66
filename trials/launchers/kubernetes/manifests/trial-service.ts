/** The Service of a trial's pod, or of all replicas of a stage. */
import { createOwnerReferences, type Json, labelNames, type Owner } from './manifests.ts'

interface TrialObject {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly owner: Owner
  readonly port: number
}

/** @param speaks protocol, and name of the port, by which service meshes detect the protocol */
export function createTrialService(
  { name, labels, owner, port }: TrialObject,
  speaks: 'http' | 'grpc',
): Json {
  const selector = Object.fromEntries(
    [labelNames.experiment, labelNames.trial, labelNames.role, labelNames.stage].flatMap((label) =>
      labels[label] === undefined ? [] : [[label, labels[label]]],
    ),
  )
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, labels, ownerReferences: createOwnerReferences(owner) },
    spec: { selector, ports: [{ name: speaks, port, targetPort: port, appProtocol: speaks }] },
  }
}

/** Formats the URL that the load generator and other stages call. */
export const formatServiceUrl = (name: string, namespace: string, port: number): string =>
  `http://${name}.${namespace}.svc:${port}`
