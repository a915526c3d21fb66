/**
 * The used part of the Kubernetes client: kubeconfig and port forwarding. The build bundles only
 * this part into this module (deploy/npm/bundle-client.mjs): the whole client is 800 modules of API
 * types, and takes 70 MiB of memory.
 */
export { KubeConfig, PortForward } from '@kubernetes/client-node'
