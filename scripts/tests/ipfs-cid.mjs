// Prints the CID of each file as `ipfs add --cid-version 1` makes it: for the tests, beside the digest `ipfs`.
import { createReadStream } from 'node:fs'
import { importer } from 'ipfs-unixfs-importer'
import { BlackHoleBlockstore } from 'blockstore-core/black-hole'
import { fixedSize } from 'ipfs-unixfs-importer/chunker'
import { balanced } from 'ipfs-unixfs-importer/layout'
for (const path of process.argv.slice(2)) {
  const file = [{ content: createReadStream(path) }]
  const options = { cidVersion: 1, rawLeaves: true, chunker: fixedSize({ chunkSize: 262144 }), layout: balanced({ maxChildrenPerNode: 174 }) }
  for await (const entry of importer(file, new BlackHoleBlockstore(), options)) console.log(entry.cid.toString())
}
