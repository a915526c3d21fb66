/** Connects the tuner to a pod: at its address, or through the API server. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer, type Socket } from 'node:net'
import type { Api } from '../api/api.ts'

interface PodConnection {
  readonly url: string
  close(): Promise<void>
}

/** Connection of this process to a pod: at its address, or through the API server. */
export type PodConnectivity = 'direct' | 'port-forward'

export const formatPodUrl = (ip: string, port: number): string =>
  `http://${ip.includes(':') ? `[${ip}]` : ip}:${port}`

export const connectToPod = async (
  api: Api,
  connectivity: PodConnectivity,
  pod: { name: string; ip: string; port: number },
): Promise<PodConnection> => {
  if (connectivity === 'direct')
    return {
      url: formatPodUrl(pod.ip, pod.port),
      close: async () => {},
    }
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    // The caller notices a broken connection because its end is closed.
    socket.on('error', () => socket.destroy())
    // Read only once the other side is connected.
    socket.pause()
    api.forward(pod.name, pod.port, socket).then(
      (end) => {
        if (socket.destroyed) end()
        socket.on('close', end)
        socket.resume()
      },
      () => socket.destroy(),
    )
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
