/**
 * What is used of the Kubernetes client: where a cluster is and who we are to it, and a port
 * forwarded to a pod. The build puts these alone, with what they need, in this module's place
 * (deploy/npm/bundle-client.mjs): the whole client is 800 modules of API types, 70 MiB of a
 * process.
 */
export { KubeConfig, PortForward } from '@kubernetes/client-node'
