// The calls of libfabric that endpoint.rs needs. Most of them are inline functions over structs of
// function pointers. Errors are libfabric's negative numbers.

#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

// A device, and the memory that is registered with it, unless the provider registers memory with endpoints.
struct annulus_device {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_mr *memory;
    void *start;
    size_t bytes;
};

struct annulus_endpoint {
    struct annulus_device *device;
    struct fid_av *addresses;
    struct fid_cq *queue;
    struct fid_ep *endpoint;
    // The memory, if it is registered with this endpoint.
    struct fid_mr *own_memory;
    // The descriptor of the queue, or -1.
    int descriptor;
};

// Same layout as `Done` in endpoint.rs.
struct annulus_done {
    void *context;
    size_t bytes;
    int error;
};

void annulus_fabric_leave_signals(void) {
    const int signals[] = {SIGHUP, SIGINT, SIGTERM};
    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
        struct sigaction action;
        // A signal that was ignored when the program started stays ignored.
        if (sigaction(signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            signal(signals[i], SIG_DFL);
    }
}

static void close_one(struct fid *object) {
    if (object)
        fi_close(object);
}

void annulus_fabric_close(struct annulus_endpoint *self) {
    // The endpoint first, so that nothing uses the memory any more.
    close_one(self->endpoint ? &self->endpoint->fid : NULL);
    close_one(self->own_memory ? &self->own_memory->fid : NULL);
    close_one(self->queue ? &self->queue->fid : NULL);
    close_one(self->addresses ? &self->addresses->fid : NULL);
    free(self);
}

void annulus_fabric_release(struct annulus_device *self) {
    close_one(self->memory ? &self->memory->fid : NULL);
    close_one(self->domain ? &self->domain->fid : NULL);
    close_one(self->fabric ? &self->fabric->fid : NULL);
    if (self->info)
        fi_freeinfo(self->info);
    free(self);
}

static int find(struct annulus_device *self, const char *provider, const char *node) {
    struct fi_info *hints = fi_allocinfo();
    if (!hints)
        return -FI_ENOMEM;
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    // Fragments keep their order.
    hints->tx_attr->msg_order = FI_ORDER_SAS;
    hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    // The modes of registered memory that a provider may ask for; remote keys and addresses are not used.
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    hints->fabric_attr->prov_name = strdup(provider);
    int error = fi_getinfo(FI_VERSION(1, 17), node, NULL, node ? FI_SOURCE : 0, hints, &self->info);
    fi_freeinfo(hints);
    return error;
}

static int open_queue(struct annulus_endpoint *self, size_t operations, int waits) {
    struct fi_cq_attr attr = {.size = operations, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE};
    self->descriptor = -1;
    if (!waits)
        return fi_cq_open(self->device->domain, &attr, &self->queue, NULL);
    attr.wait_obj = FI_WAIT_FD;
    int error = fi_cq_open(self->device->domain, &attr, &self->queue, NULL);
    return error ? error : fi_control(&self->queue->fid, FI_GETWAIT, &self->descriptor);
}

static int registers_with_endpoints(const struct annulus_device *self) {
    return (self->info->domain_attr->mr_mode & FI_MR_ENDPOINT) != 0;
}

static int register_memory(const struct annulus_device *self, struct fid_mr **memory) {
    // Registered even if the provider does not need it, so that all providers are used in the same
    // way. No other host may read or write it.
    return fi_mr_reg(self->domain, self->start, self->bytes, FI_SEND | FI_RECV, 0, 1, 0, memory, NULL);
}

static int register_with(struct annulus_endpoint *self) {
    int error = register_memory(self->device, &self->own_memory);
    if (!error)
        error = fi_mr_bind(self->own_memory, &self->endpoint->fid, 0);
    return error ? error : fi_mr_enable(self->own_memory);
}

static void *description(const struct annulus_endpoint *self) {
    return fi_mr_desc(self->own_memory ? self->own_memory : self->device->memory);
}

#define STEP(name, call)                                                                                               \
    *step = name;                                                                                                      \
    if ((error = (call)))                                                                                              \
        goto failed
#define REGISTER "register memory, of which an ordinary user may lock `ulimit -l` KiB"

// Opens a device, and registers memory with it. On failure `step` names the failed step.
int annulus_fabric_register(const char *provider, const char *node, void *start, size_t bytes,
                            struct annulus_device **out, const char **step) {
    struct annulus_device *self = calloc(1, sizeof *self);
    if (!self)
        return -FI_ENOMEM;
    self->start = start;
    self->bytes = bytes;
    int error;
    STEP("find such a provider", find(self, provider, node));
    STEP("open its network", fi_fabric(self->info->fabric_attr, &self->fabric, NULL));
    STEP("open its device", fi_domain(self->fabric, self->info, &self->domain, NULL));
    if (!registers_with_endpoints(self)) {
        STEP(REGISTER, register_memory(self, &self->memory));
    }
    *out = self;
    return 0;
failed:
    annulus_fabric_release(self);
    return error;
}

// Opens an endpoint that sends from the device's memory and receives into it, with up to
// `operations` operations at a time. On failure `step` names the failed step.
int annulus_fabric_open(struct annulus_device *device, int waits, size_t operations, struct annulus_endpoint **out,
                        const char **step) {
    struct annulus_endpoint *self = calloc(1, sizeof *self);
    if (!self)
        return -FI_ENOMEM;
    self->device = device;
    int error;
    struct fi_av_attr attr = {.type = FI_AV_TABLE};
    if (device->info->domain_attr->av_type != FI_AV_UNSPEC)
        attr.type = device->info->domain_attr->av_type;
    STEP("make a table of addresses", fi_av_open(device->domain, &attr, &self->addresses, NULL));
    STEP("make a queue of completions", open_queue(self, operations, waits));
    STEP("make an endpoint", fi_endpoint(device->domain, device->info, &self->endpoint, NULL));
    STEP("give it addresses", fi_ep_bind(self->endpoint, &self->addresses->fid, 0));
    STEP("give it a queue", fi_ep_bind(self->endpoint, &self->queue->fid, FI_TRANSMIT | FI_RECV));
    STEP("start it", fi_enable(self->endpoint));
    if (registers_with_endpoints(device)) {
        STEP(REGISTER, register_with(self));
    }
    *out = self;
    return 0;
failed:
    annulus_fabric_close(self);
    return error;
}

// Writes the endpoint's address of at most `*bytes` bytes.
int annulus_fabric_address(struct annulus_endpoint *self, void *address, size_t *bytes) {
    return fi_getname(&self->endpoint->fid, address, bytes);
}

int annulus_fabric_add(struct annulus_endpoint *self, const void *address, uint64_t *peer) {
    int added = fi_av_insert(self->addresses, address, 1, peer, 0, NULL);
    return added == 1 ? 0 : added < 0 ? added : -FI_EINVAL;
}

int annulus_fabric_send(struct annulus_endpoint *self, const void *start, size_t bytes, uint64_t peer, void *context) {
    return (int)fi_send(self->endpoint, start, bytes, description(self), peer, context);
}

int annulus_fabric_receive(struct annulus_endpoint *self, void *start, size_t bytes, void *context) {
    return (int)fi_recv(self->endpoint, start, bytes, description(self), FI_ADDR_UNSPEC, context);
}

// Reports one completed operation and returns 1, or returns 0 if there is none.
int annulus_fabric_done(struct annulus_endpoint *self, struct annulus_done *done) {
    struct fi_cq_msg_entry entry;
    ssize_t count = fi_cq_read(self->queue, &entry, 1);
    if (count == 1) {
        *done = (struct annulus_done){.context = entry.op_context, .bytes = entry.len};
        return 1;
    }
    if (count == -FI_EAVAIL) {
        struct fi_cq_err_entry failed = {0};
        count = fi_cq_readerr(self->queue, &failed, 0);
        if (count == 1) {
            *done = (struct annulus_done){.context = failed.op_context, .error = failed.err};
            return 1;
        }
    }
    return count == -FI_EAGAIN || count == -FI_EINTR ? 0 : (int)count;
}

// Waits until an operation may be complete, `wake` is readable, or the time limit has passed.
int annulus_fabric_wait(struct annulus_endpoint *self, int wake, int milliseconds) {
    struct pollfd waited[2] = {{.fd = wake, .events = POLLIN}, {.fd = self->descriptor, .events = POLLIN}};
    if (self->descriptor >= 0) {
        struct fid *queue = &self->queue->fid;
        int error = fi_trywait(self->device->fabric, &queue, 1);
        if (error)
            return error == -FI_EAGAIN ? 0 : error;
    }
    // The caller polls in any case.
    poll(waited, self->descriptor >= 0 ? 2 : 1, milliseconds);
    return 0;
}

const char *annulus_fabric_reason(int error) { return fi_strerror(error < 0 ? -error : error); }
